// Package nearest finds what somebody meant when they mistyped a name.
package nearest

// To returns the candidate that is nearest to word by edit distance, or "" if none is near enough to be a likely
// slip: at most a third of the longer of the two, and at least one edit. Of equals it returns the first.
func To(word string, candidates []string) string {
	best, bestDistance := "", -1
	for _, c := range candidates {
		d := distance(word, c)
		if d > max(1, max(len(word), len(c))/3) {
			continue
		}
		if bestDistance < 0 || d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts insertions, deletions, substitutions and swaps of neighbours (optimal string alignment). It looks at
// the first 64 bytes, which keeps it bounded.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	older, prev := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, prev = prev, row
	}
	return prev[len(b)]
}
