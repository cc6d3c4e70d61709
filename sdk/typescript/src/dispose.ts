// Node.js 18 has no Symbol.asyncDispose, which `await using` is compiled to. Imported before all others.

const symbols = Symbol as unknown as Record<string, symbol>;

symbols['dispose'] ??= Symbol.for('Symbol.dispose');
symbols['asyncDispose'] ??= Symbol.for('Symbol.asyncDispose');
