/** The skills that are shipped: found, replaced and switched off like any other; and what they say of the service is so. */
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startUpstream, type Upstream } from '../../../contract-tests/upstream/start-upstream.ts';
import { checkFile, listKeys } from '../../config/config.ts';
import { hookBench, hookFolder, saying } from '../hooks/test-hooks.ts';
import { converse, testFolder } from '../test-conversation.ts';
import { testExtensionParts } from '../test-extension.ts';
import { createSkills } from './skills.ts';

let upstream: Upstream;
beforeAll(async () => {
  upstream = await startUpstream();
});
afterAll(() => upstream.stop());

const top = join(import.meta.dirname, 'builtin');
const names = readdirSync(top).sort();
const textOf = (name: string) => readFileSync(join(top, name, 'SKILL.md'), 'utf8');

/** Its blocks of one language or several. */
function blocksOf(name: string, languages: string): string[] {
  const blocks = textOf(name).matchAll(new RegExp(`^\`\`\`(?:${languages})\n(.*?)^\`\`\``, 'gms'));
  return [...blocks].map(([, block]) => block ?? '');
}

/** What it writes as code within its sentences and tables. */
function codeOf(name: string): string[] {
  const prose = textOf(name).replaceAll(/^```.*?^```/gms, '');
  return [...prose.matchAll(/`([^`\n]+)`/g)].map(([, code]) => code ?? '');
}

/** A row of a table of its, cell by cell, without the marks of code. */
function rowsOf(name: string, heading: string): string[][] {
  const table = textOf(name).split(`${heading}\n`)[1]?.split('\n\n')[0] ?? '';
  const cells = (line: string) => line.split('|').map((cell) => cell.trim().replaceAll('`', ''));
  return table
    .split('\n')
    .slice(1)
    .map((line) => cells(line).slice(1, -1));
}

const file = (name: string, description: string, body: string) =>
  `---\nname: ${name}\ndescription: ${description}\n---\n${body}\n`;

describe('a built-in skill', () => {
  test('is named in every workspace, says whose it is, and is loaded on demand', async () => {
    const { path } = await testFolder();
    const skills = createSkills(testExtensionParts());
    await skills.tools({ workspacePath: path });
    expect(skills.states({ workspacePath: path })).toEqual(
      names.map((name) => ({ name, source: 'builtin', state: 'ready', detail: null })),
    );
    const calls = names.map((name) => ['skill', { name }] as const);
    const { system, results } = await converse(upstream, path, {}, { calls });
    for (const [index, name] of names.entries()) {
      const [, description = '', body = ''] =
        /description: >-\n(.*?)\nlicense.*?\n---\n(.*)/s.exec(textOf(name)) ?? [];
      expect(system).toContain(`- ${name}: ${description.trim().replaceAll(/\s+/g, ' ')}`);
      expect(system).not.toContain(body.trim().slice(0, 100));
      expect(results[index]).toContain(body.trim());
    }
  });

  test('is for many people’s workspaces too', async () => {
    const { path } = await testFolder();
    const calls = [['skill', { name: 'service-hooks' }]] as const;
    const { results } = await converse(upstream, path, {}, { calls, shared: true });
    expect(results[0]).toContain('# Hooks');
  });

  test.each(['own', '.agents/skills'])('gives way to a whole one of its name in %s', async (place) => {
    const { path, file: write } = await testFolder();
    await write(`${place}/jq/SKILL.md`, file('jq', 'of the house', 'Use gojq.'));
    const { system, results } = await converse(
      upstream,
      path,
      {},
      { skillFolders: [join(path, 'own')], calls: [['skill', { name: 'jq' }]] },
    );
    expect(system).toContain('- jq: of the house');
    expect(results[0]).toContain('Use gojq.');
  });

  test('stays where one of its name is broken', async () => {
    const { path, file: write } = await testFolder();
    await write('.agents/skills/jq/SKILL.md', 'no front matter');
    const { results } = await converse(upstream, path, {}, { calls: [['skill', { name: 'jq' }]] });
    expect(results[0]).toContain('# JSON with jq');
  });

  test('is off where `options.disabled_skills` names it; with all of them off there is no tool', async () => {
    const { path } = await testFolder();
    const config = { options: { disabled_skills: names } };
    const { system, tools } = await converse(upstream, path, config);
    expect(tools).not.toContain('skill');
    for (const name of names) expect(system).not.toContain(name);
    const skills = createSkills(testExtensionParts({ first: { config, shared: false } }));
    await skills.tools({ workspacePath: path });
    expect(skills.states({ workspacePath: path }).map(({ state }) => state)).toEqual(
      names.map(() => 'disabled'),
    );
  });

  test('is not named to an agent whose profile leaves the tool out', async () => {
    const { path, file: write } = await testFolder();
    await write('.service/agents/viewer.md', '---\ndescription: looks\ntools: [view]\n---\nYou look.');
    const { system, tools } = await converse(upstream, path, {}, { query: { agentSlug: 'viewer' } });
    expect(tools).toEqual(['view']);
    expect(system).not.toContain('service-config');
  });
});

describe('what the skill service-config says', () => {
  const known = new Map(listKeys().map((one) => [one.key, one]));
  /** As the schema lists them, which has one model, and servers and lists under other names only once. */
  const keyOf = (code: string) => code.replaceAll('[]', '').replaceAll(/^(models)\.small/g, '$1.large');
  const tops = new Set([...known.keys()].map((key) => key.split('.')[0]));
  const isKey = (code: string) =>
    /^[a-zA-Z_]+(\.[a-z_*[\]]+)+$/.test(code) && tops.has(code.split('.')[0] ?? '');

  test.each(names)('of keys: those in %s are keys of the settings', (name) => {
    const keys = [...codeOf(name), ...blocksOf(name, 'sh').flatMap((block) => block.split(/\s+/))].filter(
      isKey,
    );
    if (name !== 'jq') expect(keys.length).toBeGreaterThan(3);
    const items = new Set([
      'hooks.pre_tool_use.matcher',
      'hooks.pre_tool_use.command',
      'hooks.pre_tool_use.timeout',
      'hooks.pre_tool_use.on_error',
    ]);
    expect(keys.map(keyOf).filter((key) => !known.has(key) && !items.has(key))).toEqual([]);
  });

  test.each(names.filter((name) => name !== 'jq'))('in the files it shows is valid: %s', async (name) => {
    const { path } = await testFolder();
    const shown = blocksOf(name, 'jsonc?').filter((block) => !block.includes('"event"'));
    expect(shown.length).toBeGreaterThan(0);
    for (const [index, block] of shown.entries()) {
      const settings = join(path, `${index}.json`);
      writeFileSync(settings, block);
      expect(await checkFile(settings)).toEqual([]);
    }
  });

  test('of defaults is what the schema says', () => {
    const rows = rowsOf('service-config', '| Key | Default |');
    expect(rows.length).toBeGreaterThan(5);
    for (const [key = '', usual] of rows) {
      if (key.startsWith('hooks.')) continue;
      expect([key, String(known.get(key)?.default)]).toEqual([key, usual]);
    }
  });

  test('of trust names exactly what needs it', () => {
    const sentence =
      textOf('service-config').split('does not\ncount in it:')[1]?.split('.\n')[0]?.split('. The')[0] ?? '';
    const named = [...sentence.matchAll(/`([^`]+)`/g)].map(([, key]) => key ?? '');
    const restricted = listKeys()
      .filter((one) => one.restricted)
      .map(({ key }) => key);
    const topmost = restricted.filter((key) => !restricted.some((other) => key.startsWith(`${other}.`)));
    expect(named.sort()).toEqual(topmost.filter((key) => !key.endsWith('provider_options')).sort());
  });

  test('of the types of providers is the list, without the other names', () => {
    const sentence = textOf('service-config').split('`providers.*.type` is ')[1]?.split('.')[0] ?? '';
    const types = [...sentence.matchAll(/`([^`]+)`/g)].map(([, type]) => type);
    expect(types).toEqual(
      known.get('providers.*.type')?.enum?.filter((type) => !String(type).startsWith('vendor-')),
    );
  });
});

describe('what the skill service-hooks says', () => {
  const { attempt } = hookBench();
  const bash = (command: string) => ({ name: 'bash', arguments: { command } });

  test('of the input and the environment of a hook is what it gets', async () => {
    const folder = hookFolder();
    const calls = [bash('true'), { name: 'view', arguments: { file_path: 'a' } }];
    const keep = 'cat > "in-$SERVICE_TOOL_NAME"; env > "env-$SERVICE_TOOL_NAME"';
    await attempt(folder, { hooks: [{ command: keep }], call: calls });
    const [, shown = '{}'] = blocksOf('service-hooks', 'json');
    const input = JSON.parse(folder.read('in-bash'));
    expect(Object.keys(JSON.parse(shown)).sort()).toEqual(Object.keys(input).sort());
    expect(input.event).toBe(JSON.parse(shown).event);
    const said = codeOf('service-hooks').filter((code) => /^SERVICE_[A-Z_]+$/.test(code));
    const given = `${folder.read('env-bash')}${folder.read('env-view')}`.matchAll(
      /^(SERVICE_(?!COMMAND=)\w+)=/gm,
    );
    expect([...new Set(said)].sort()).toEqual([...new Set([...given].map(([, name]) => name))].sort());
  });

  test('of exit codes and members of the answer does what it says', async () => {
    const folder = hookFolder();
    const run = (command: string, call = bash('echo on')) => attempt(folder, { hooks: [{ command }], call });
    expect((await run('echo no >&2; exit 2')).result?.content).toBe(
      'Permission denied. A hook denied it: no',
    );
    expect((await run('echo no >&2; exit 49')).done).toMatchObject({ status: 'interrupted' });
    expect((await run('echo hm >&2; exit 1')).notices.join()).toContain('hm');
    expect((await run(saying({ decision: 'deny', reason: 'so' }))).result?.content).toContain('so');
    expect((await run(saying({ decision: 'allow', context: 'Mind the gap.' }))).result?.content).toContain(
      'Mind the gap.',
    );
    expect((await run(saying({ halt: true, reason: 'so' }))).done).toMatchObject({ status: 'interrupted' });
    expect((await run('printf {')).result?.content).toContain('Permission denied');
  });

  test('as recipes works as they stand', async () => {
    const folder = hookFolder();
    const recipes = blocksOf('service-hooks', 'sh');
    const scripts = recipes.map((text) => [/^# (\S+\.sh)$/m.exec(text)?.[1] ?? '', text] as const);
    expect(scripts.map(([script]) => script)).toEqual(['guard.sh', 'allow-tests.sh', 'quiet.sh', 'log.sh']);
    for (const [script, text] of scripts) folder.write(script, text);
    const hooks = scripts.map(([script]) => ({ matcher: '^bash$', command: `./${script}` }));
    const { results, decided, started } = await attempt(folder, {
      hooks,
      call: ['git push', 'npm test', 'npm install', 'rmdir x'].map(bash),
      answer: 'deny',
    });
    expect(results[0]?.content).toBe('Permission denied. A hook denied it: Pushing is for people.');
    expect(decided.map(({ decision }) => decision)).toContain('allow');
    expect(started).toContainEqual({ command: 'npm install --no-fund --no-audit' });
    expect(results[3]?.content).toContain('Permission denied');
    const logged = folder
      .read('tool-calls.jsonl')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).tool_input.command);
    expect(logged.sort()).toEqual(['git push', 'npm install', 'npm test', 'rmdir x']);
  });
});

const jqIsHere = spawnSync('jq', ['--version']).status === 0;

test.runIf(jqIsHere)('every line of the skill jq is a program that jq runs', async () => {
  const { path, file: write } = await testFolder();
  const things = [{ id: 3, name: 'x', kind: 'a', size: 1, price: 20, value: null }];
  await write('package.json', JSON.stringify({ version: '1.0.0', scripts: {}, devDependencies: {} }));
  await write('data.json', JSON.stringify({ items: things, list: [], value: null }));
  await write('list.json', JSON.stringify(things));
  await write('log.jsonl', '{"level":"error","duration":1}\n{"level":"info","duration":2}\n');
  await write('base.json', '{"a":1}');
  await write('over.json', '{"a":2}');
  const lines = blocksOf('jq', 'sh')
    .flatMap((block) => block.split('\n'))
    .filter((line) => line !== '');
  expect(lines.length).toBeGreaterThan(15);
  const told = lines.map((line) => execFileSync('sh', ['-ec', line], { cwd: path, encoding: 'utf8' }));
  expect(told[lines.findIndex((line) => line.includes('max'))]).toBe('2\n');
  expect(JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'))).toMatchObject({ version: '1.2.0' });
});
