/* Counts primes with a sieve; compiled and run in one sandbox: silk run examples/primes.c -- 5000000 */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    long limit = argc > 1 ? atol(argv[1]) : 1000000, count = 0;
    char *composite = calloc(limit + 1, 1);
    if (composite == NULL) {
        perror("sieve");
        return 1;
    }
    for (long n = 2; n <= limit; n++) {
        if (composite[n]) continue;
        count++;
        for (long m = n * n; m <= limit; m += n) composite[m] = 1;
    }
    printf("%ld primes up to %ld\n", count, limit);
    free(composite);
    return 0;
}
