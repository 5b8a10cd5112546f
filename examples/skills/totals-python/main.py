"""Adds up the transfers in data/transfers.json by token. Amounts are whole numbers of a token's smallest unit."""

import json
from pathlib import Path

from units import in_units

data = json.loads((Path(__file__).parent / "data/transfers.json").read_text())

sums: dict[str, int] = {}
for transfer in data["transfers"]:
    amount = int(transfer["amount"])
    sums[transfer["token"]] = sums.get(transfer["token"], 0) + (-amount if transfer.get("out") else amount)

totals = {token: in_units(sums[token], data["decimals"][token]) for token in sorted(sums)}
print(json.dumps({"transfers": len(data["transfers"]), "totals": totals}, separators=(",", ":")))
