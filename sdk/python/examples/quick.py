import skerry

client = skerry.Skerry()  # SKERRY_URL, SKERRY_API_KEY

with client.create(timeout_minutes=10) as sandbox:
    sandbox.files.write("answer.py", "print(6 * 7)")
    result = sandbox.exec("python3 answer.py", check=True)
    print(result.stdout)
# destroyed here, whatever happens
