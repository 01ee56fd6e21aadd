/** What can be typed after `service`: the command line as the completion scripts of all shells see it. */
import type { Argument, Command, Option } from 'commander';

/** A word to offer, and what it means. */
export interface Word {
  readonly word: string;
  readonly meaning: string;
}

/** What may stand at one place: certain words, files, folders, settings keys, values of the key before, or anything. */
export type Source = readonly Word[] | 'files' | 'folders' | 'keys' | 'values' | 'anything';

/** A command with what may follow it. */
export interface Node {
  /** Its words with spaces between; empty for the program. */
  readonly at: string;
  readonly commands: readonly Word[];
  readonly options: readonly {
    readonly names: readonly string[];
    readonly meaning: string;
    readonly takes: Source | null;
  }[];
  readonly arguments: readonly { readonly source: Source; readonly variadic: boolean }[];
}

/** A settings key, its map entries as `*`, with the values it can have where they are few. */
export interface Key extends Word {
  readonly values: readonly string[];
}

/** The program and every command below it. */
export function nodesOf(command: Command, at = ''): readonly Node[] {
  const own: Node = {
    at,
    commands: wordsFor(command),
    options: command
      .createHelp()
      .visibleOptions(command)
      .map((option) => ({
        names: [option.short, option.long].filter((name) => typeof name === 'string'),
        meaning: firstSentence(option.description),
        takes: option.required || option.optional ? sourceOf(option, command) : null,
      })),
    arguments: command.registeredArguments.map((argument) => {
      const source = sourceOf(argument, command);
      // Of several words of our own each is another one; only files are all alike.
      return { source, variadic: argument.variadic && typeof source === 'string' };
    }),
  };
  return [own, ...command.commands.flatMap((one) => nodesOf(one, at ? `${at} ${one.name()}` : one.name()))];
}

function sourceOf(place: Option | Argument, { parent }: Command): Source {
  if (place.argChoices) return place.argChoices.map((word) => ({ word, meaning: '' }));
  switch (place.name()) {
    case 'key':
      return 'keys';
    case 'value':
      return 'values';
    case 'file':
    case 'files':
    case 'path':
    case 'revoke':
      return 'files';
    case 'cwd':
      return 'folders';
    case 'command':
      return parent ? wordsFor(parent) : 'anything';
    default:
      return 'anything';
  }
}

function wordsFor(command: Command): readonly Word[] {
  return command.commands.map((one) => ({ word: one.name(), meaning: firstSentence(one.description()) }));
}

/** How a script names what may stand at a place: certain words stand for themselves. */
export function kindOf(source: Source): string {
  return typeof source === 'string' ? source : source.map(({ word }) => word).join(' ');
}

/** Shells show little beside a word: the first sentence, without its full stop. */
export function firstSentence(text: string): string {
  return (text.split(/(?<=[.;]) /)[0] ?? text).replace(/[.;]$/, '');
}
