/** `service skills`: looked at, added from folders, files and archives, replaced, hidden and removed on a server; listed here. */
import { chmodSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { zipSync } from 'fflate';
import { expect, test } from 'vitest';
import { launcher, testHome } from '../test-command.ts';
import { startTestServer } from '../test-server.ts';
import { openTestTerminal } from '../test-terminal.ts';

function skillText(name: string, description = 'Writes release notes.'): string {
  return `---\nname: ${name}\ndescription: ${description}\n---\nRead the commits first.\n`;
}

test('on a server skills are added, shown, replaced, hidden and removed', async () => {
  const server = await startTestServer();
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
}, 120_000);

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
}, 120_000);
