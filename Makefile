# A front for meson and ninja. The first four are all that most people need.

BUILD  ?= build
PREFIX ?= /usr/local

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup packaging configure build demo test install uninstall dist deb bench lint format clean

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: build ## see an agent's whole session: create, work, destroy
	@BUILD=$(BUILD) scripts/node demo/run.mjs

test: MESON_OPTIONS += -Dwerror=true
test lint: SETUP_OPTIONS = --tests
test: build packaging ## run all tests (some minutes; needs root for the virtual machines)
	@BUILD=$(BUILD) tests/run

build: configure ## install what is missing and build into build/
	@ninja -C $(BUILD)

install: build ## install below PREFIX (/usr/local), inside DESTDIR
	@meson configure --prefix=$(abspath $(PREFIX)) --sysconfdir=$(if $(filter /usr,$(abspath $(PREFIX))),/etc,etc) $(BUILD) >/dev/null
	@meson install -C $(BUILD) --quiet $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))

uninstall: ## remove what `make install` has installed last
	@scripts/uninstall $(BUILD)

dist: ## pack the sources with all that a build needs but Debian's packages
	@scripts/dist

deb: setup packaging ## build the Debian package, into dist/
	@scripts/deb

bench: build ## measure against baselines of the same run
	@BUILD=$(BUILD) bench/run

lint: build ## clang-tidy, cppcheck, shellcheck and the format check
	@BUILD=$(BUILD) scripts/lint

format: ## format the C sources
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean: ## remove what was built; downloads and sandboxes stay
	rm -rf $(BUILD)

setup:
	@scripts/setup $(SETUP_OPTIONS)

packaging:
	@scripts/setup --package

configure: setup
	@test -f $(BUILD)/build.ninja || meson setup $(MESON_OPTIONS) $(BUILD)
