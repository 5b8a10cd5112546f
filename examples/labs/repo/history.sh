# Finds the commit that broke a function, with git bisect: silk run -p lab:repo examples/labs/repo/history.sh
set -eu
git init -q work && cd work
for n in 1 2 3 4 5 6 7 8; do
  [ "$n" -lt 6 ] && sign=+ || sign=-
  printf 'def add(a, b):\n    return a %s b  # revision %d\n' "$sign" "$n" > sums.py
  git add sums.py && git commit -qm "revision $n"
done
git bisect start HEAD HEAD~7 > /dev/null
git bisect run python3 -c 'from sums import add; assert add(2, 3) == 5' > log.txt 2>&1
git show -s --format='%s broke it' refs/bisect/bad
