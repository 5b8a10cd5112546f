"""Wants to know who lives here, and does not find out: silk run examples/curious.py ends with status 159."""

print("looking around ...")
print(open("/etc/passwd").read())
