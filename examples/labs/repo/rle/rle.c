// Run lengths of what comes in on stdin.
#include <stdio.h>

int main(void) {
	int last = getchar(), run = 1;
	for (int c; last != EOF; last = c) {
		c = getchar();
		if (c == last) {
			run++;
			continue;
		}
		printf("%d%c", run, last);
		run = 1;
	}
	return 0;
}
