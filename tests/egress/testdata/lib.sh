# Has curl try what attempts.json says, all at once, and says of each what it came to. Processes are dear in a sandbox: one for each attempt, and two
# that translate.
words=()
while IFS=$'\t' read -r word arguments; do
  words+=("$word")
  eval "set -- $arguments"
  { curl -sS --fail-with-body --max-time 15 "$@" >"/tmp/$word" 2>"/tmp/$word.error"; echo $? >"/tmp/$word.status"; } &
done < <(jq -r '.[] | [.word, .do] | @tsv' attempts.json)
wait
for word in "${words[@]}"; do
  printf '%s\x1e' "$word" "$(<"/tmp/$word.status")" "$(<"/tmp/$word")" "$(<"/tmp/$word.error")"
done | jq -Rsc 'split("\u001e") | range(0; length - 1; 4) as $i | .[$i : $i + 4] as [$word, $status, $said, $error] |
  {word: $word} + if $status == "0" then {said: $said} else {error: "\($status) \($error) \($said)"} end'
