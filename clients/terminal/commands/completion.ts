/** `service completion`: scripts that let a shell complete the command line, without starting the command. */
import { basename } from 'node:path';
import type { Command } from 'commander';
import { bashScript } from '../completion/bash.ts';
import { fishScript } from '../completion/fish.ts';
import { firstSentence, type Key, nodesOf } from '../completion/tree.ts';
import { zshScript } from '../completion/zsh.ts';
import { print } from '../output.ts';

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript };

/** The shells that can be completed in. */
export type Shell = keyof typeof scripts;

/** Prints the script for a shell, for the name by which this command was called. */
export async function printCompletion(shell: Shell, program: Command): Promise<void> {
  const name = basename(process.argv[1] ?? '');
  // Started without its launcher, it has no name that a shell would know.
  const called = /^\w[\w.-]*$/.test(name) && !name.endsWith('.mjs') ? name : program.name();
  print(scripts[shell](called, nodesOf(program), await settingsKeys()));
}

async function settingsKeys(): Promise<readonly Key[]> {
  const { listKeys } = await import('../../../server/config/config.ts');
  return listKeys()
    .filter(({ key, deprecated }) => deprecated === null && !key.startsWith('$') && !key.endsWith('*'))
    .map(({ key, description, type, enum: values }) => ({
      word: key,
      meaning: firstSentence(description),
      values: values?.map(String) ?? (type.includes('boolean') ? ['true', 'false'] : []),
    }));
}
