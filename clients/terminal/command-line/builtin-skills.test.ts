/** The commands that the built-in skills tell an agent to give or to suggest are commands of this program. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { nodesOf } from '../completion/tree.ts';
import { buildProgram } from './program.ts';

const skills = join(import.meta.dirname, '../../../server/runtime/skills/builtin');
const nodes = nodesOf(buildProgram());

/** The command that the words name, and what stands behind its name. */
function commandOf(words: readonly string[]) {
  for (let count = words.length; count > 0; count -= 1) {
    const node = nodes.find(({ at }) => at === words.slice(0, count).join(' '));
    if (node) return { node, rest: words.slice(count) };
  }
  throw new Error(`service ${words.join(' ')} names no command.`);
}

/** Each `service …` in code, as its words; what stands behind `#` is a remark. */
function commandsIn(text: string): string[][] {
  const inline = [...text.matchAll(/`(service [^`]+)`/g)].map(([, code]) => code ?? '');
  const blocks = [...text.matchAll(/^```sh\n(.*?)^```/gms)].flatMap(([, code]) => code?.split('\n') ?? []);
  const lines = [...inline, ...blocks.filter((line) => line.startsWith('service '))];
  return lines.map((line) => line.replace(/#.*/, '').trim().split(/\s+/).slice(1));
}

test('every command in a built-in skill is one, with options that it has and arguments where it takes them', () => {
  const found = readdirSync(skills).flatMap((name) =>
    commandsIn(readFileSync(join(skills, name, 'SKILL.md'), 'utf8')),
  );
  expect(found.length).toBeGreaterThan(15);
  for (const words of found) {
    const { node, rest } = commandOf(words);
    const what = `service ${words.join(' ')}`;
    const names = node.options.flatMap((option) => option.names);
    for (const option of rest.filter((word) => word.startsWith('-'))) expect(names, what).toContain(option);
    const given = rest.filter((word) => !word.startsWith('-'));
    expect(given.length, what).toBeLessThanOrEqual(node.arguments.length);
    if (given.length === 0) expect(node.commands, what).toEqual([]);
  }
});
