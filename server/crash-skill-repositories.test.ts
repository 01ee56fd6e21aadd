/** Servers that are killed or stopped while they fetch a repository of skills: it is fetched all the same, and once. */

import { readdir } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { startGitServer, type TestGitServer } from '../contract-tests/git/start-git.ts';
import type { SkillPage, SkillRepository } from './contract/api.ts';
import { expectSound, longLease, standStill, startCrashing } from './crash-checks.ts';
import { temporaryFolder } from './server-process.ts';
import { type Client, clientOf } from './test-client.ts';
import { newDatabase, newMasterKey } from './test-database.ts';

const url = '/api/v1/skills/repositories';
let git: TestGitServer;
let houses = 0;

beforeAll(async () => {
  git = await startGitServer();
});
afterAll(() => git.stop());

async function newHouse() {
  houses += 1;
  const house = await git.make(`house-${houses}`);
  const files = { 'tidy/SKILL.md': '---\nname: tidy\ndescription: Tidies up.\n---\nDo it well.\n' };
  return { url: house.url, commit: await house.commit(files) };
}

/** From now on the first request for a pack is not answered; resolves with it once it is there. */
function holdPack(): Promise<ServerResponse> {
  return new Promise((resolve) => {
    git.answer = ({ method }: IncomingMessage, response: ServerResponse) => {
      if (method !== 'POST') return false;
      git.answer = null;
      resolve(response);
      return true;
    };
  });
}

async function add(client: Client, place: string): Promise<string> {
  const made = await client.post<SkillRepository>(url, { url: place });
  expect(made.status).toBe(201);
  return made.body.id;
}

function expectState(client: Client, id: string, is: Partial<SkillRepository>): Promise<void> {
  const read = async () => (await client.get<SkillRepository>(`${url}/${id}`)).body;
  return expect.poll(read, { interval: 100 }).toMatchObject(is);
}

test('what a killed server was fetching is fetched when it is back, and nothing of it is left', {}, async () => {
  const folder = await temporaryFolder();
  const house = await newHouse();
  const first = await startCrashing(folder);
  const id = await add(clientOf(first, first.key), house.url);
  const held = holdPack();
  expect((await clientOf(first, first.key).send('POST', `${url}/${id}/sync`)).status).toBe(202);
  await held;
  const scratch = join(folder, 'data/skill-repositories');
  expect(await readdir(scratch)).toHaveLength(1);
  await first.kill9();
  await expectSound(join(folder, 'data/service.db'));
  const second = await startCrashing(folder);
  const client = clientOf(second, first.key);
  await expectState(client, id, { state: 'proposed', proposed_commit: house.commit, skills: 0 });
  await expect.poll(() => readdir(scratch)).toEqual([]);
  const { body } = await client.get<SkillPage>('/api/v1/skills?source=repository');
  expect(body.data).toEqual([]);
});

test('of two servers on one database one fetches, and one that was stopped writes nothing once another has taken over', {
  skip: inject('postgresUrl') === null,
}, async () => {
  const folder = await temporaryFolder();
  const keyFile = await newMasterKey(folder);
  const shared = { DATABASE_URL: await newDatabase(), SERVICE_MASTER_KEY_FILE: keyFile, ...longLease };
  const one = await startCrashing(folder, shared);
  const other = await startCrashing(folder, shared);
  const [client, left] = [clientOf(one, one.key), clientOf(other, one.key)];
  const house = await newHouse();
  const id = await add(client, house.url);
  const before = git.authorizations.length;
  const held = holdPack();
  expect((await client.send('POST', `${url}/${id}/sync`)).status).toBe(202);
  const response = await held;
  const again = await left.send('POST', `${url}/${id}/sync`);
  expect([again.status, git.authorizations.length - before]).toEqual([202, 2]);
  await standStill(one, shared.DATABASE_URL);
  await expectState(left, id, { state: 'proposed', proposed_commit: house.commit });
  const applied = await left.post<SkillRepository>(`${url}/${id}/apply`, { commit: house.commit });
  expect(applied.body).toMatchObject({ state: 'idle', skills: 1 });
  one.signal('SIGCONT');
  response.writeHead(500).end();
  await sleep(2000);
  await expectState(left, id, { state: 'idle', error: null, applied_commit: house.commit });
});
