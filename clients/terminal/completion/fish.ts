/** The completion script for fish. */
import { type Key, kindOf, type Node, type Word } from './tree.ts';

/** Writes the script that completes a command of that name. */
export function fishScript(name: string, nodes: readonly Node[], keys: readonly Key[]): string {
  const it = `__${name.replaceAll(/\W/g, '_')}_complete`;
  return `# Completion of ${name} for fish; written by: ${name} completion fish
function ${it}
  set -l current (commandline -ct)
  set -l words (commandline -opc)
  set -e words[1]
  set -l at
  set -l takes
  set -l plain
  set -l kind
  set -l first
  set -l count 0
  for word in $words
    if test -n "$takes"
      set takes
      continue
    end
    if test -z "$plain"; and test "$word" = --
      set plain yes
      continue
    end
    if test -z "$plain"; and string match -q -- '-*' $word
      switch "$at|$word"
${optionCases(nodes)}
      end
      continue
    end
    switch "$at|$word"
      case ${nodes.flatMap(({ at, commands }) => commands.map(({ word }) => quote(`${at}|${word}`))).join(' ')}
        set at (string trim -- "$at $word")
      case '*'
        test $count = 0; and set first $word
        set count (math $count + 1)
    end
  end
  if test -n "$takes"
    set kind $takes
  else if test -z "$plain"; and string match -q -- '-*' $current
    switch "$at"
${nodes.map(({ at, options }) => caseOf([at], offer(options.flatMap(({ names, meaning }) => names.map((word) => ({ word, meaning })))))).join('\n')}
    end
  else
    switch "$at|$count"
${placeCases(nodes)}
    end
  end
  switch "$kind"
    case files
      __fish_complete_path $current
    case folders
      __fish_complete_directories $current ''
    case keys
      for line in ${keys.map(lineOf).join(' ')}
        set -l key (string split -f 1 \\t -- $line)
        set -l parts (string split '*' -- $key)
        set -l before $parts[1]
        if test (count $parts) = 1
          echo $line
        else if string match -qr -- '^'(string escape --style=regex -- $before)'.+\\.' $current
          set -l entry (string split -m 1 . -- (string replace -- $before '' $current))
          string replace -- $key "$before$entry[1]$parts[2]" $line
        else
          echo $before
        end
      end
    case values
      switch "$first"
${keys
  .filter(({ values }) => values.length > 0)
  .map(({ word, values }) => caseOf([word], offer(values.map((value) => ({ word: value, meaning: '' })))))
  .join('\n')}
      end
    case anything ''
    case '*'
      string split ' ' -- $kind
  end
end
complete -c ${name} -f -k -a '(${it})'`;
}

function optionCases(nodes: readonly Node[]): string {
  return nodes
    .flatMap(({ at, options }) =>
      options.flatMap(({ names, takes }) =>
        takes === null
          ? []
          : [
              caseOf(
                names.map((name) => `${at}|${name}`),
                `set takes ${quote(kindOf(takes))}`,
              ),
            ],
      ),
    )
    .join('\n');
}

function placeCases(nodes: readonly Node[]): string {
  return nodes
    .flatMap(({ at, commands, arguments: places }) => [
      ...(commands.length > 0 ? [caseOf([`${at}|0`], offer(commands))] : []),
      ...places.map(({ source, variadic }, index) =>
        caseOf([`${at}|${variadic ? '*' : index}`], `set kind ${quote(kindOf(source))}`),
      ),
    ])
    .join('\n');
}

function caseOf(patterns: readonly string[], action: string): string {
  return `      case ${patterns.map(quote).join(' ')}\n        ${action}`;
}

function offer(words: readonly Word[]): string {
  return words.length === 0 ? 'true' : `printf '%s\\n' ${words.map(lineOf).join(' ')}`;
}

/** As fish reads them: the word, a tab, its meaning. */
function lineOf({ word, meaning }: Word): string {
  return meaning ? `${quote(word)}\\t${quote(meaning)}` : quote(word);
}

/** As one word of fish, whose quotes know two escapes. */
function quote(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
