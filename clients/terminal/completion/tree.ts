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
  const visible = command.createHelp();
  const commands = visible.visibleCommands(command);
  const own: Node = {
    at,
    commands: commands.map((one) => ({ word: one.name(), meaning: firstSentence(one.description()) })),
    options: visible.visibleOptions(command).map((option) => ({
      names: [option.short, option.long].filter((name) => typeof name === 'string'),
      meaning: firstSentence(option.description),
      takes: option.required || option.optional ? sourceOf(option) : null,
    })),
    arguments: command.registeredArguments.map((argument) => ({
      source: sourceOf(argument),
      variadic: argument.variadic,
    })),
  };
  const help: Node = {
    at: 'help',
    commands: [],
    options: [],
    arguments: [{ source: own.commands, variadic: false }],
  };
  const isProgram = at === '';
  return [
    own,
    ...(isProgram ? [help] : []),
    ...command.commands.flatMap((one) => nodesOf(one, at ? `${at} ${one.name()}` : one.name())),
  ];
}

function sourceOf(place: Option | Argument): Source {
  if (place.argChoices) return place.argChoices.map((word) => ({ word, meaning: '' }));
  const name = place.name();
  if (name === 'key') return 'keys';
  if (name === 'value') return 'values';
  if (name === 'files') return 'files';
  if (name === 'cwd') return 'folders';
  return name === 'revoke' ? 'files' : 'anything';
}

/** Shells show little beside a word: the first sentence, without its full stop. */
export function firstSentence(text: string): string {
  return (text.split(/(?<=[.;]) /)[0] ?? text).replace(/[.;]$/, '');
}
