/** What the scripts for bash and zsh have in common: the command line as `case` statements, which both read alike. */
import { kindOf, type Node } from './tree.ts';

/** `takes=` what the option takes, by `command|option`. */
export function optionCases(nodes: readonly Node[]): string {
  return nodes
    .flatMap(({ at, options }) =>
      options.flatMap(({ names, takes }) =>
        takes === null
          ? []
          : [
              caseOf(
                names.map((name) => `${at}|${name}`),
                `takes=${quote(kindOf(takes))}`,
              ),
            ],
      ),
    )
    .join('\n');
}

/** The pattern of every subcommand behind its command: `command|subcommand`. */
export function commandPattern(nodes: readonly Node[]): string {
  return nodes.flatMap(({ at, commands }) => commands.map(({ word }) => quote(`${at}|${word}`))).join('|');
}

/** `kind=` what stands at a place, by `command|place`; what offers subcommands is the caller's to write. */
export function placeCases(nodes: readonly Node[], offer: (node: Node) => string): string {
  return nodes
    .flatMap((node) => [
      ...(node.commands.length > 0 ? [caseOf([`${node.at}|0`], offer(node))] : []),
      ...node.arguments.map(({ source, variadic }, index) => {
        const kind = `kind=${quote(kindOf(source))}`;
        return variadic
          ? `      ${quote(`${node.at}|`)}*) ${kind} ;;`
          : caseOf([`${node.at}|${index}`], kind);
      }),
    ])
    .join('\n');
}

/** One branch. */
export function caseOf(patterns: readonly string[], action: string): string {
  return `      ${patterns.map(quote).join('|')}) ${action} ;;`;
}

/** As one word of the shell, whatever is in it. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
