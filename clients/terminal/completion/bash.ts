/** The completion script for bash, from 3.2 on, which macOS still has. */
import { caseOf, commandPattern, optionCases, placeCases, quote } from './cases.ts';
import type { Key, Node } from './tree.ts';

/**
 * Writes the script that completes a command of that name. Paths are left to bash, which knows how they are quoted: it
 * completes them where nothing is offered, unless that is taken back; bash 3.2 cannot, and offers files there, too.
 */
export function bashScript(name: string, nodes: readonly Node[], keys: readonly Key[]): string {
  const it = `_${name.replaceAll(/\W/g, '_')}_complete`;
  return `# Completion of ${name} for bash; written by: ${name} completion bash
${it}() {
  local current at= word= takes= plain= kind= words= first= count=0 last=-1 i key before rest=$COMP_LINE
  local -a typed
  COMPREPLY=()
  # Bash breaks words at colons and the like, as those of addresses: what no space parts is one.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    [[ $last == -1 || $rest == [[:space:]]* || $rest != "$word"* ]] && typed[++last]=
    rest=\${rest#"\${rest%%[![:space:]]*}"}
    typed[last]+=$word rest=\${rest#"$word"}
  done
  current=\${typed[last]}
  for ((i = 1; i < last; i++)); do
    word=\${typed[i]}
    if [[ -n $takes ]]; then takes=; continue; fi
    if [[ -z $plain && $word == -- ]]; then plain=yes; continue; fi
    if [[ -z $plain && $word == -* ]]; then
      case "$at|$word" in
${optionCases(nodes)}
      esac
      continue
    fi
    case "$at|$word" in
      ${commandPattern(nodes)}) at="\${at:+$at }$word" ;;
      *) [[ $count == 0 ]] && first=$word; count=$((count + 1)) ;;
    esac
  done
  if [[ -n $takes ]]; then
    kind=$takes
  elif [[ -z $plain && $current == -* ]]; then
    case "$at" in
${nodes.map(({ at, options }) => caseOf([at], `words=${wordsOf(options.flatMap(({ names }) => names))}`)).join('\n')}
    esac
  else
    case "$at|$count" in
${placeCases(nodes, ({ commands }) => `words=${wordsOf(commands.map(({ word }) => word))}`)}
    esac
  fi
  [[ $kind == files ]] || compopt +o bashdefault +o default 2>/dev/null
  case "$kind" in
    files) ;;
    folders) compopt -o dirnames 2>/dev/null ;;
    keys)
      for key in ${keys.map(({ word }) => quote(word)).join(' ')}; do
        if [[ $key == *'*'* ]]; then
          before=\${key%%'*'*} rest=\${key#*'*'}
          if [[ $current == "$before"?*.* ]]; then
            key=\${current#"$before"} key=$before\${key%%.*}\${rest%%'*'*}
          else
            key=$before
          fi
        fi
        [[ $key == "$current"* ]] && COMPREPLY+=("$key")
      done
      [[ "\${COMPREPLY[*]}" == *. ]] && compopt -o nospace 2>/dev/null ;;
    values)
      case "$first" in
${keys
  .filter(({ values }) => values.length > 0)
  .map(({ word, values }) => `      ${word}) words=${wordsOf(values)} ;;`)
  .join('\n')}
      esac ;;
    anything) ;;
    *) words=\${words:-$kind} ;;
  esac
  if [[ -n $words ]]; then
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$words" -- "$current")
  fi
}
complete -o bashdefault -o default -F ${it} ${name}`;
}

function wordsOf(words: readonly string[]): string {
  return quote(words.join(' '));
}
