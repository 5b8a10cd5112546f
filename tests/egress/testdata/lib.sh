# Has curl try what attempts.json says, all at once, and says of each what it came to.
while IFS= read -r line; do
  word=$(jq -r .word <<<"$line")
  (
    eval "set -- $(jq -r .do <<<"$line")"
    said=$(curl -sS --fail-with-body --max-time 15 "$@" 2>"/tmp/$word")
    status=$?
    error=$(</tmp/"$word")
    [ $status -eq 0 ] || error="$status: $error"
    jq -nc --arg word "$word" --arg said "$said" --arg error "$error" '{word: $word, said: (if $error == "" then $said else "" end), error: (if $error == "" then "" else $error + " " + $said end)}'
  ) &
done < <(jq -c '.[]' attempts.json)
wait
