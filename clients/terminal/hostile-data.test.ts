/** What a repository brings along in the place of the data: no right that it grants counts, and no link leads out of it. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { dataFolder, testHome } from './test-command.ts';

/** Without a model of one's own this one answers, and uses the tool `write`. */
const request = 'Write a file named hello.txt';

test('a database with permissions that this person never gave counts for nothing, under whatever name it lies there', async () => {
  const stranger = testHome();
  await stranger.service(['run', request]);
  const brought = dataFolder(stranger);
  grantEverything(join(brought, 'service.db'));
  // That it would count otherwise: the stranger's own service believes it.
  await stranger.service(['run', request]);
  expect(existsSync(join(stranger.project, 'hello.txt'))).toBe(true);

  const victim = testHome();
  const folder = join(victim.project, '.service');
  cpSync(brought, folder, { recursive: true });
  cpSync(brought, join(folder, 'data-00000000000000000000'), { recursive: true });
  expect(await victim.service(['sessions', 'list'])).toMatchObject({ code: 0, stdout: '' });
  expect(await victim.service(['run', request])).toMatchObject({ stderr: expect.stringContaining('write') });
  expect(existsSync(join(victim.project, 'hello.txt'))).toBe(false);
});

test('projects that share `options.data_directory` do not share what is allowed in one of them', async () => {
  const home = testHome();
  const kept = join(home.home, 'kept');
  home.write('.config/service/service.json', { options: { data_directory: kept } });
  home.write('other/README.md', '');
  await home.service(['run', request]);
  const [data = ''] = readdirSync(kept).filter((name) => name.startsWith('data-'));
  grantEverything(join(kept, data, 'service.db'));
  await Promise.all([home.service(['run', request]), home.service(['-C', '../other', 'run', request])]);
  expect(existsSync(join(home.project, 'hello.txt'))).toBe(true);
  expect(existsSync(join(home.home, 'other/hello.txt'))).toBe(false);
});

test.each([['.service'], ['.service/logs'], ['.service/service.db'], ['.service/.gitignore']])(
  'nothing is written through %s, which the repository has as a link',
  async (path) => {
    const home = testHome();
    const outside = join(home.home, 'outside');
    mkdirSync(outside);
    if (path !== '.service') mkdirSync(join(home.project, '.service'));
    const target = /db|git/.test(path) ? join(outside, 'file') : outside;
    symlinkSync(target, join(home.project, path));
    const ended = await home.service(['run', request]);
    expect(readdirSync(outside)).toEqual([]);
    if (path === '.service')
      expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('leads out of the project') });
  },
);

test('what is kept stays out of the repository, whatever the repository itself has git ignore', async () => {
  const home = testHome();
  home.write('project/.service/.gitignore', '!*\n');
  await home.service(['run', request]);
  expect(readFileSync(join(dataFolder(home), '.gitignore'), 'utf8')).toMatch(/^\*$/m);
});

test('`options.data_directory` within the project leaves to git what else is in that folder', async () => {
  const home = testHome();
  home.write('project/service.json', { options: { data_directory: '.' } });
  await home.service(['run', request]);
  expect(existsSync(join(home.project, '.gitignore'))).toBe(false);
});

test('a project that was moved keeps its sessions', async () => {
  const home = testHome();
  await home.service(['run', request]);
  cpSync(join(home.project, '.service'), join(home.home, 'moved/.service'), { recursive: true });
  const { stdout } = await home.service(['-C', '../moved', 'sessions', 'list']);
  expect(stdout).not.toBe('');
});

/** As if each workspace had been granted every tool; the key that seals is not known to strangers, and made anew. */
function grantEverything(file: string): void {
  const sql = new DatabaseSync(file);
  sql.exec('delete from signing_keys');
  sql.exec(`
    insert into permission_grants
      (id, organization_id, workspace_id, session_id, tool_name, action, granted_by, created_at)
    select 'grant_' || tool || action, organization_id, id, null, tool, action, 'usr_x', 0
    from workspaces, (select 'write' tool union select 'bash'), (select 'write' action union select 'execute')
  `);
  sql.close();
}
