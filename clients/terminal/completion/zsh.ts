/** The completion script for zsh: to be sourced, or put into a folder of `fpath` as `_service`. */
import { caseOf, commandPattern, optionCases, placeCases, quote } from './cases.ts';
import type { Key, Node, Word } from './tree.ts';

/** Writes the script that completes a command of that name. */
export function zshScript(name: string, nodes: readonly Node[], keys: readonly Key[]): string {
  const it = `_${name.replaceAll(/\W/g, '_')}`;
  return `#compdef ${name}
# Completion of ${name} for zsh; written by: ${name} completion zsh
${it}() {
  local current=$words[CURRENT] at= word= takes= plain= kind= first= key= before= rest=
  local -i count=0 i
  local -a offered found
  for ((i = 2; i < CURRENT; i++)); do
    word=$words[i]
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
      *) ((count == 0)) && first=$word; ((count += 1)) ;;
    esac
  done
  if [[ -n $takes ]]; then
    kind=$takes
  elif [[ -z $plain && $current == -* ]]; then
    case "$at" in
${nodes.map(({ at, options }) => caseOf([at], `offered=(${described(options.flatMap(wordsOf))})`)).join('\n')}
    esac
    _describe -o option offered
    return
  else
    case "$at|$count" in
${placeCases(nodes, ({ commands }) => `offered=(${described(commands)})`)}
    esac
  fi
  case "$kind" in
    files) _files; return ;;
    folders) _files -/; return ;;
    keys) offered=(${described(keys)}) ;;
    values)
      case "$first" in
${keys
  .filter(({ values }) => values.length > 0)
  .map(
    ({ word, values }) =>
      `      ${word}) offered=(${described(values.map((value) => ({ word: value, meaning: '' })))}) ;;`,
  )
  .join('\n')}
      esac ;;
    anything) _message argument; return ;;
    *) [[ -n $kind ]] && offered=(\${=kind}) ;;
  esac
  for key in $offered; do
    if [[ $kind == keys && \${key%%:*} == *'*'* ]]; then
      before=\${key%%'*'*} rest=\${key#*'*'}
      if [[ $current == "$before"?*.* ]]; then
        word=\${current#"$before"} found+=("$before\${word%%.*}$rest")
      else
        compadd -S '' -- "$before"
      fi
    else
      found+=("$key")
    fi
  done
  _describe word found
}
if [[ $funcstack[1] == ${it} ]]; then ${it} "$@"; else compdef ${it} ${name}; fi`;
}

/** As `_describe` reads them: `word:meaning`. */
function described(words: readonly Word[]): string {
  return words
    .map(({ word, meaning }) => quote(meaning ? `${word.replaceAll(':', '\\:')}:${meaning}` : word))
    .join(' ');
}

function wordsOf({ names, meaning }: Node['options'][number]): readonly Word[] {
  return names.map((word) => ({ word, meaning }));
}
