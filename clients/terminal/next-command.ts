/** What a person is told to type next, so that it works where they typed this command, and as they call it. */
import { isAbsolute } from 'node:path';
import { namedFolder } from './places.ts';

/** The name that this command was linked by, where the launcher says so; Node itself leaves an absolute path there. */
export function calledAs(): string {
  const [, name = ''] = process.argv;
  return name === '' || isAbsolute(name) ? 'service' : name;
}

/**
 * A command for what this one has found or made: in the same folder, where `-C` named one, and at the same server.
 * @param words - What stands behind these, as it is typed.
 */
export function nextCommand(subcommand: string, server: string | undefined, words: string): string {
  const folder = namedFolder();
  return [
    calledAs(),
    ...(folder === null ? [] : ['-C', asTyped(folder)]),
    subcommand,
    ...(server === undefined ? [] : ['--server', asTyped(server)]),
    words,
  ].join(' ');
}

/** As a shell takes it. */
export function asTyped(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
