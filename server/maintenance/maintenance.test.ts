/** Maintenance from the command line, over the database of a real installation. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../clock.ts';
import { createIdentity } from '../identity/identity.ts';
import { createLog } from '../log.ts';
import { createOutbound } from '../outbound/outbound.ts';
import { anchorFile, openStore, type Store, writeAnchor } from '../store/store.ts';
import { createInvitation, examineDatabase, verifyAuditChain } from './maintenance.ts';

const run = promisify(execFile);
const command = join(import.meta.dirname, 'invite.ts');
const person = { email: 'ada@example.com', password: 'correct-horse-battery' };

let folder: string;
let store: Store;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-maintenance-'));
  store = await openStore(`sqlite:${join(folder, 'service.db')}`, {
    clock: systemClock,
    log: createLog('silent'),
  });
});
afterEach(async () => {
  await store.close();
  await rm(folder, { recursive: true });
});

test('an invitation lets one person register, for a week', async () => {
  const identity = await invitingIdentity();
  const { token, expiresAt } = await createInvitation({ databaseUrl: null, dataDirectory: folder });
  expect(token).toMatch(/^inv_[\w-]{43}$/);
  expect(Math.round((expiresAt.getTime() - Date.now()) / 86_400_000)).toBe(7);
  const { user } = await identity.register({ ...person, invitation_token: token });
  expect(user.operator).toBe(false);
  const again = identity.register({ ...person, email: 'grace@example.com', invitation_token: token });
  await expect(again).rejects.toMatchObject({ code: 'registration_refused' });
});

test('the command prints the token alone, so that a script can take it', async () => {
  const { stdout, stderr } = await run(process.execPath, [command], { env: { SERVICE_DATA_DIR: folder } });
  expect(stdout).toMatch(/^inv_[\w-]{43}\n$/);
  expect(stderr).toContain('invitation_token');
  const identity = await invitingIdentity();
  await identity.register({ ...person, invitation_token: stdout.trim() });
});

test('the audit log of an installation is held against its chain and the heads beside it', async () => {
  const identity = await invitingIdentity();
  const { token } = await createInvitation({ databaseUrl: null, dataDirectory: folder });
  await identity.register({ ...person, invitation_token: token });
  const verify = (...flags: string[]) =>
    run(process.execPath, [join(import.meta.dirname, 'verify-audit.ts'), ...flags], {
      env: { SERVICE_DATA_DIR: folder },
    });
  const whole = await verifyAuditChain({ databaseUrl: null, dataDirectory: folder });
  expect(whole).toMatchObject({ valid: true, entries: 3, head: { sequence: 3 } });
  expect((await verify('--anchor', `3:${whole.head?.hash}`)).stdout).toContain(`3:${whole.head?.hash}`);
  await writeAnchor(anchorFile(folder), { sequence: 4, hash: '0'.repeat(64) }, new Date());
  await expect(verify()).rejects.toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/broken at entry 4: truncated/),
  });
  await expect(verify('--anchor', 'nonsense')).rejects.toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringContaining('<sequence>:<hash>'),
  });
});

test('a folder without a database stays as it is, and the message says what to do', async () => {
  const elsewhere = await mkdtemp(join(tmpdir(), 'service-maintenance-'));
  const invite = run(process.execPath, [command], { env: { SERVICE_DATA_DIR: elsewhere } });
  await expect(invite).rejects.toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('SERVICE_DATA_DIR'),
  });
  expect(await readdir(elsewhere)).toEqual([]);
  await rm(elsewhere, { recursive: true });
});

function invitingIdentity() {
  return createIdentity({
    records: store,
    masterKey: randomBytes(32),
    registration: 'invite',
    clock: systemClock,
    log: createLog('silent'),
    baseUrl: () => 'http://127.0.0.1:8090',
    outbound: createOutbound({ shared: () => false }),
  });
}

test('a database is looked at without changing it', async () => {
  const before = await readdir(folder);
  const versions = await examineDatabase(folder);
  expect(versions?.found).toBeGreaterThan(0);
  expect(versions?.found).toBe(versions?.known);
  expect(await readdir(folder)).toEqual(before);
  await store.close();
  const { mtimeMs } = await stat(join(folder, 'service.db'));
  expect(await examineDatabase(folder)).toEqual(versions);
  expect((await stat(join(folder, 'service.db'))).mtimeMs).toBe(mtimeMs);
});

test('no database is made by looking, and what is none is told', async () => {
  expect(await examineDatabase(join(folder, 'nowhere'))).toBeNull();
  await store.close();
  await writeFile(join(folder, 'service.db'), 'this is no database, whatever its name says'.repeat(100));
  await expect(examineDatabase(folder)).rejects.toThrow(/not a database/);
});
