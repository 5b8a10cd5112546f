"""A table, summed up and written down: silk run --artifacts out examples/labs/python/sales.py"""

import io

import pandas as pd

rows = """day,shop,sold
2026-01-05,north,12
2026-01-05,south,7
2026-01-06,north,9
2026-01-06,south,
2026-01-12,north,20
2026-01-13,south,11
"""
table = pd.read_csv(io.StringIO(rows), parse_dates=["day"])
missing = table["sold"].isna().sum()
weekly = table.fillna({"sold": 0}).pivot_table(index=pd.Grouper(key="day", freq="W"), columns="shop", values="sold", aggfunc="sum").astype(int)
print(weekly.to_string())
print(f"{missing} day without a number, best week {weekly.sum(axis=1).idxmax():%d %B}")
weekly.to_csv("weekly.csv")
