//go:build ignore

// Counts letters that arrive on stdin: silk run examples/letters.go --stdin README.md
package main

import (
	"bufio"
	"fmt"
	"os"
	"unicode"
)

func main() {
	count := map[rune]int{}
	for in := bufio.NewReader(os.Stdin); ; {
		r, _, err := in.ReadRune()
		if err != nil {
			break
		}
		if unicode.IsLetter(r) {
			count[unicode.ToLower(r)]++
		}
	}
	for r := 'a'; r <= 'z'; r++ {
		fmt.Printf("%c %d\n", r, count[r])
	}
}
