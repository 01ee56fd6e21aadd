/** Passwords: the cost, the dummy, and what is refused before any work. */
import { readFile } from 'node:fs/promises';
import { parseOptions } from '@node-rs/argon2';
import { expect, test } from 'vitest';
import { hashPassword, verifyPassword } from './passwords.ts';

const password = 'correct-horse-battery';

test('a password is hashed with argon2id at the cost that OWASP asks for, and with its own salt', async () => {
  const [first, second] = await Promise.all([hashPassword(password), hashPassword(password)]);
  expect(first).toMatch(/^\$argon2id\$/);
  expect(parseOptions(first)).toMatchObject({
    memoryCost: 19_456,
    timeCost: 2,
    parallelism: 1,
    outputLen: 32,
  });
  expect(first).not.toBe(second);
});

test('only the right password verifies', async () => {
  const stored = await hashPassword(password);
  expect(await verifyPassword(stored, password)).toBe(true);
  expect(await verifyPassword(stored, `${password} `)).toBe(false);
  expect(await verifyPassword(stored, password.toUpperCase())).toBe(false);
  expect(await verifyPassword(stored, '')).toBe(false);
});

test('a composed and a decomposed letter are the same password', async () => {
  const stored = await hashPassword('caf\u00e9-caf\u00e9');
  expect(await verifyPassword(stored, 'cafe\u0301-cafe\u0301')).toBe(true);
});

test('no password is right for an account that does not exist', async () => {
  expect(await verifyPassword(null, password)).toBe(false);
});

test('an unknown account costs as much as a wrong password', async () => {
  const stored = await hashPassword(password);
  const unknown: number[] = [];
  const wrong: number[] = [];
  for (let round = 0; round < 40; round += 1) {
    unknown.push(await secondsOf(() => verifyPassword(null, 'a wrong guess')));
    wrong.push(await secondsOf(() => verifyPassword(stored, 'a wrong guess')));
  }
  const ratio = median(unknown) / median(wrong);
  expect(ratio).toBeGreaterThan(0.75);
  expect(ratio).toBeLessThan(1.25);
});

test('a megabyte of password is refused before it is hashed', async () => {
  const stored = await hashPassword(password);
  const megabyte = 'a'.repeat(1_048_576);
  const tries: number[] = [];
  for (let round = 0; round < 9; round += 1) {
    tries.push(await secondsOf(() => verifyPassword(stored, megabyte)));
  }
  expect(median(tries)).toBeLessThan(0.003);
  expect(await verifyPassword(stored, megabyte)).toBe(false);
  await expect(hashPassword(megabyte)).rejects.toThrow(RangeError);
});

test('files are read while many passwords wait to be hashed', async () => {
  let hashed = 0;
  const hashes = Array.from({ length: 20 }, async () => {
    await hashPassword(password);
    hashed += 1;
  });
  await readFile(new URL(import.meta.url));
  expect(hashed).toBeLessThan(10);
  await Promise.all(hashes);
});

/** Processor time, so that a busy machine does not blur the comparison. */
async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000_000;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
