/** `make link` and `make unlink`: puts the command on the person's PATH under a name that is free, and takes it off. */
import { lstatSync, mkdirSync, readlinkSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { allOnPath } from './search-path.ts';

const command = realpathSync(join(import.meta.dirname, 'bin/service'));
const { LINK_NAME: name = 'service', LINK_PREFIX: prefix = '~/.local', PATH: path = '' } = process.env;
const link = join(resolve(prefix.replace(/^~(?=\/|$)/, homedir())), 'bin', name);

try {
  if (!/^[A-Za-z0-9][\w.-]*$/.test(name))
    throw new Error(`${JSON.stringify(name)} is no name for a command.`);
  process.stdout.write(process.argv[2] === 'unlink' ? removeLink() : makeLink());
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}

function makeLink(): string {
  const other = otherOnPath(name);
  if (other) throw new Error(`There is another ${name} on your PATH: ${other}. ${otherName()}`);
  const there = whatIsThere();
  if (there === 'something else') {
    throw new Error(`${link} is there, and is no link to this checkout. Remove it, or: ${otherName()}`);
  }
  if (there === 'nothing') {
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(command, link);
  }
  return `${link} ${there === 'nothing' ? 'now starts' : 'already starts'} ${command}.\n${pathHint()}`;
}

function removeLink(): string {
  const there = whatIsThere();
  if (there === 'something else') throw new Error(`${link} is no link to this checkout; it stays.`);
  if (there === 'nothing') return `There is no ${link}.\n`;
  rmSync(link);
  return `${link} is gone.\n`;
}

/** Only a link to this very checkout is ours to keep or to remove. */
function whatIsThere(): 'nothing' | 'our link' | 'something else' {
  const facts = lstatSync(link, { throwIfNoEntry: false });
  if (!facts) return 'nothing';
  return facts.isSymbolicLink() && realPath(resolve(dirname(link), readlinkSync(link))) === command
    ? 'our link'
    : 'something else';
}

function realPath(file: string): string | null {
  try {
    return realpathSync(file);
  } catch {
    // A link that leads nowhere, or in a circle, is not ours.
    return null;
  }
}

/** One that is not this command under another path: with two of a name, which one runs depends on the shell. */
function otherOnPath(wanted: string): string | undefined {
  return allOnPath(wanted, path, process.cwd()).find((file) => realPath(file) !== command);
}

function otherName(): string {
  const free = ['svc', 'service-agent', 'service-ai'].find((one) => one !== name && !otherOnPath(one));
  return `Choose another name: make link NAME=${free ?? '…'}`;
}

function pathHint(): string {
  const folder = dirname(link);
  if (path.split(delimiter).some((one) => resolve(one) === folder)) return '';
  return `${folder} is not on your PATH yet. Add this line to the start-up file of your shell:\n  export PATH="${folder}:$PATH"\n`;
}
