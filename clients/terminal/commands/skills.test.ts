/** `service skills`: looked at, added from folders, files and archives, replaced, hidden and removed on a server, repositories among them; listed here. */
import { chmodSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { zipSync } from 'fflate';
import { expect, onTestFinished, test } from 'vitest';
import { startGitServer } from '../../../contract-tests/git/start-git.ts';
import { launcher, testHome } from '../test-command.ts';
import type { Ended } from '../test-process.ts';
import { startTestServer } from '../test-server.ts';
import { openTestTerminal, type TestTerminal } from '../test-terminal.ts';

function skillText(name: string, description = 'Writes release notes.'): string {
  return `---\nname: ${name}\ndescription: ${description}\n---\nRead the commits first.\n`;
}

test('the text of a skill is printed as it is into a pipe, and its lines end as others do on a terminal', async () => {
  const home = testHome();
  const text = skillText('notes').replaceAll('\n', '\r\n');
  home.write('project/notes/SKILL.md', text);
  await home.service(['skills', 'add', 'notes']);
  const words = ['skills', 'show', 'notes', '--text'];
  expect((await home.service(words)).stdout).toBe(text);
  const place = { cwd: home.project, environment: home.environment };
  const { screen } = await (await openTestTerminal([launcher, ...words], place)).end();
  expect(screen).toBe(skillText('notes').trimEnd());
});

test('on a server skills are added, shown, replaced, hidden and removed', async () => {
  const server = await startTestServer({}, { SERVICE_OUTBOUND_ALLOW: '127.0.0.1' });
  const home = testHome();
  const variables = { SERVICE_API_KEY: server.operatorKey };
  const there = (words: readonly string[]) => ['skills', ...words, '--server', server.url];
  const skills = (...words: string[]) => home.service(there(words), { variables });
  const open = (...words: string[]) =>
    openTestTerminal([launcher, ...there(words)], {
      cwd: home.project,
      environment: { ...home.environment, ...variables },
    });
  home.write('project/notes/SKILL.md', skillText('notes'));
  home.write('project/notes/.git/HEAD', 'ref: refs/heads/main\n');
  chmodSync(home.write('project/notes/scripts/commits.sh', '#!/bin/sh\ngit log\n'), 0o755);

  expect(await skills('validate', 'notes')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^notes: 2 files, \d+ bytes, nothing is wrong\n$/),
  });
  expect((await skills('add', 'notes')).stdout).toMatch(/^Added notes for your own runs \(skl_\w{26}\)\n$/);
  const again = await skills('add', 'notes');
  expect(again).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('(name_taken)') });
  const listed = JSON.parse((await skills('list', '--json')).stdout) as { name: string; scope: string }[];
  expect(listed.find(({ name }) => name === 'notes')).toMatchObject({
    scope: 'user',
    enabled: true,
    files: 2,
  });
  const shown = await skills('show', 'notes');
  expect(shown.stdout).toMatch(
    /^notes \(skl_\w+\)\n {2}Writes release notes\.\n {2}user, enabled\n {2}SKILL\.md {2}\d+ bytes\n {2}scripts\/commits\.sh {2}18 bytes, a program\n$/,
  );
  expect((await skills('show', 'notes', '--text')).stdout).toBe(skillText('notes'));

  expect((await skills('update', 'notes')).stdout).toContain('notes has these files already');
  const packed = zipSync({ 'notes/SKILL.md': new TextEncoder().encode(skillText('notes', 'Shorter.')) });
  writeFileSync(join(home.project, 'notes.zip'), packed);
  expect((await skills('update', 'notes.zip')).stdout).toMatch(/^Updated notes for your own runs/);
  const replaced = JSON.parse((await skills('show', 'notes', '--json')).stdout);
  expect(replaced).toMatchObject({ description: 'Shorter.', contents: [{ path: 'SKILL.md' }] });

  expect((await skills('disable', 'jq')).stdout).toBe('Disabled jq for your own runs\n');
  expect((await skills('list')).stdout).toMatch(/^jq\tbuiltin\tdisabled \(user\)\tskl_/m);
  expect((await skills('enable', 'jq')).stdout).toBe('Enabled jq for your own runs\n');
  const table = await (await open('list')).end();
  expect(table.screen).toMatch(
    /^NAME +FROM +STATE +ABOUT\njq +builtin +enabled .*…\nnotes +user +enabled +Shorter\.\n/,
  );
  expect(await skills('remove', 'jq', '--yes')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('jq comes with the service'),
  });
  const removing = await open('remove', 'notes');
  await removing.shows('Remove notes from your own runs, with its files? [y/N]');
  await removing.press('y');
  expect(await removing.end()).toMatchObject({ code: 0, screen: expect.stringContaining('Removed notes') });
  expect(await skills('update', 'notes')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('There is no skill "notes"'),
  });

  // Of one name in two scopes the one that counts is shown, and the one that is meant is changed.
  home.write('project/SKILL.md', skillText('notes'));
  const added = await skills('add', 'SKILL.md', '--scope', 'organization');
  expect(added.stdout).toMatch(/^Added notes for all runs of the organization/);
  await skills('add', 'SKILL.md');
  expect((await skills('list')).stdout).toMatch(
    /^notes\t(user\tenabled|organization\tcovered)\t.*\nnotes\t(user\tenabled|organization\tcovered)\t/m,
  );
  expect((await skills('show', 'notes')).stdout).toContain('  user, enabled\n');
  const unsure = await skills('remove', 'notes', '--yes');
  expect(unsure).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/2 skills .*--scope/) });
  expect(await skills('remove', 'notes', '--scope', 'user', '--yes')).toMatchObject({ code: 0 });
  await skills('disable', 'notes', '--scope', 'organization');
  const enabled = await skills('enable', 'notes');
  expect(enabled).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('not offered it all the same: disabled (organization)'),
  });

  await lookAndApply(skills, open);
});

/** A repository of skills from its first look to its removal, with a real git server. */
async function lookAndApply(
  skills: (...words: string[]) => Promise<Ended>,
  open: (...words: string[]) => Promise<TestTerminal>,
): Promise<void> {
  const git = await startGitServer();
  onTestFinished(() => git.stop());
  const { url, commit } = await git.make('house');
  const first = await commit({
    'notes/SKILL.md': skillText('notes'),
    'notes/run.sh': '#!/bin/sh\n',
    'broken/SKILL.md': '---\nname: broken one\n---\n',
  });
  const repositories = (...words: string[]) => skills('repositories', ...words);
  const added = await repositories('add', url, '--name', 'house');
  expect(added).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/repositories apply --server \S+ house/),
  });
  expect(added.stdout).toMatch(
    /^Added house \(skr_\w+\)\nhouse at \w{7}; nothing of it is used\n! broken is invalid, and left out\n {2}error: SKILL\.md:2: /,
  );
  expect(added.stdout).toMatch(/\n {4}\+Read the commits first\.\n {2}\+ run\.sh {2}10 bytes, a program\n/);
  expect(await repositories('apply', 'house')).toMatchObject({ code: 2, stdout: '' });
  const other = await repositories('apply', 'house', '--commit', '1234567');
  expect(other).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(first) });
  expect((await repositories('apply', 'house', '--commit', first.slice(0, 12))).stdout).toBe(
    `1 skill of house at ${first.slice(0, 7)} is used\n`,
  );
  expect((await skills('list')).stdout).toMatch(/^notes\trepository\t/m);
  const same = await repositories('sync', 'house');
  expect(same).toMatchObject({ code: 0, stdout: expect.stringContaining('1 skill unchanged'), stderr: '' });

  const second = await commit({ 'notes/SKILL.md': skillText('notes', 'Evil \u001b[2J') });
  const synced = JSON.parse((await repositories('sync', 'house', '--json')).stdout);
  expect(synced).toMatchObject({ state: 'proposed', proposal: { commit: second, applied_commit: first } });
  const applying = await open('repositories', 'apply', 'house');
  const asked = await applying.shows('Use these skills of house for all runs? [y/N]');
  expect(asked).toContain('- run.sh');
  expect(asked).toContain('Evil \\e[2J');
  await applying.press('Enter');
  expect(await applying.end()).toMatchObject({ screen: expect.stringContaining('Nothing was changed.') });
  git.answer = (_request, response) => {
    response.writeHead(500).end();
    return true;
  };
  const failed = await repositories('sync', 'house');
  expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining('house was not fetched: ') });
  const shown = await repositories('show', 'house');
  expect(shown.stdout).toBe(`house (${url}): nothing new, ${first.slice(0, 7)} is used\n`);
  expect(shown.stderr).toContain('the last sync failed');
  expect((await repositories('list')).stdout).toMatch(/^house\tfailed\t\w{7}\t1\thttp.*\tskr_/);
  expect((await repositories('remove', 'house', '--yes')).stdout).toMatch(/^Removed house \(skr_\w+\)\n$/);
  expect((await repositories('list')).stderr).toContain('There is no repository of skills');
}

test('what is wrong is said with file and line, here too, and nothing is kept', async () => {
  const home = testHome();
  home.write('project/notes/SKILL.md', '---\nname: other\n---\nRead.\n');
  home.write('project/notes/a b .txt', 'x');
  home.write('project/empty/readme.md', '');
  home.write('project/linked/SKILL.md', skillText('linked'));
  symlinkSync('/etc/passwd', join(home.project, 'linked/passwd'));
  const place = join('notes', 'SKILL.md');
  const validated = await home.service(['skills', 'validate', 'notes']);
  expect(validated).toMatchObject({ code: 1, stderr: expect.stringContaining('notes is no skill: ') });
  expect(validated.stdout).toMatch(new RegExp(`^${place}:\\d: error: description: is missing`, 'm'));
  const added = await home.service(['skills', 'add', 'notes']);
  expect(added).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining(`${place}:2: error: `),
  });
  const listed = await home.service(['skills', 'list']);
  expect(listed.stdout).not.toContain('notes');
  expect(listed.stdout).toMatch(/^service-config\tbuiltin\tenabled\t/m);
  for (const [path, told] of [
    ['empty', 'There is no SKILL.md in empty'],
    ['linked', 'linked/passwd is a link'],
    ['missing', 'missing cannot be read'],
  ] as const)
    expect(await home.service(['skills', 'validate', path])).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining(told),
    });
});
