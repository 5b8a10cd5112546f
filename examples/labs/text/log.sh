# What went wrong, when, and how often: silk run examples/labs/text/log.sh
cat > access.log <<'LOG'
2026-03-01T10:00:01 GET /index 200 12
2026-03-01T10:00:04 GET /orders/7 500 310
2026-03-01T10:01:09 POST /orders 201 48
2026-03-01T10:01:30 GET /orders/9 500 290
2026-03-01T10:02:02 GET /missing 404 3
LOG
echo "by status:"
awk '{ n[$4]++; ms[$4] += $5 } END { for (s in n) printf "%s %d times, %.0f ms on average\n", s, n[s], ms[s] / n[s] }' access.log | sort
echo "failed:"
rg --no-line-number ' 5\d\d ' access.log | cut -d' ' -f1-3 | tee failed.txt
