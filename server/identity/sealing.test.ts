/** Sealing: a secret opens in its own row, under its own key, unchanged, and nowhere else. */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { createSealing } from './sealing.ts';

const secret = Buffer.from('the private part of a key');
const sealing = createSealing(randomBytes(32));

test('what was sealed opens in its row', () => {
  expect(sealing.open(sealing.seal(secret, 'signing_keys/a'), 'signing_keys/a')).toEqual(secret);
});

test('an empty secret opens too', () => {
  expect(sealing.open(sealing.seal(Buffer.alloc(0), 'a'), 'a')).toEqual(Buffer.alloc(0));
});

test('the sealed text does not hold the secret, and never reads the same twice', () => {
  const [first, second] = [sealing.seal(secret, 'a'), sealing.seal(secret, 'a')];
  expect(first).not.toBe(second);
  expect(first).toMatch(/^v1\.[0-9a-f]{12}\.[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]+$/);
  expect(first).not.toContain(secret.toString('base64url'));
});

test('a sealed value that was moved to another row does not open', () => {
  expect(() => sealing.open(sealing.seal(secret, 'signing_keys/a'), 'signing_keys/b')).toThrow('another row');
});

test('another master key is told by its id, not by a riddle', () => {
  const other = createSealing(randomBytes(32));
  expect(() => other.open(sealing.seal(secret, 'a'), 'a')).toThrow(/give it the master key/);
});

describe('a sealed value that was changed does not open', () => {
  const [version = '', keyId = '', nonce = '', box = ''] = sealing.seal(secret, 'a').split('.');
  test.each([
    ['a flipped bit in the text', [version, keyId, nonce, flipped(box, 0)]],
    ['a flipped bit in the tag', [version, keyId, nonce, flipped(box, -1)]],
    ['a flipped bit in the nonce', [version, keyId, flipped(nonce, 0), box]],
    ['a cut tag', [version, keyId, nonce, box.slice(0, -8)]],
    ['nothing left', [version, keyId, nonce, '']],
    ['another version', ['v2', keyId, nonce, box]],
    ['a part too many', [version, keyId, nonce, box, box]],
    ['a part too few', [version, keyId, nonce]],
  ])('%s', (_, parts) => {
    expect(() => sealing.open(parts.join('.'), 'a')).toThrow();
  });
});

function flipped(base64url: string, at: number): string {
  const bytes = Buffer.from(base64url, 'base64url');
  const index = (at + bytes.length) % bytes.length;
  bytes[index] = (bytes[index] ?? 0) ^ 1;
  return bytes.toString('base64url');
}

test('while one key takes over, the first seals and both open; then the first alone', () => {
  const [old, next] = [randomBytes(32), randomBytes(32)];
  let keys = [old];
  const both = createSealing({ current: () => keys });
  const before = both.seal(secret, 'a');
  keys = [next, old];
  const after = both.seal(secret, 'a');
  expect([both.open(before, 'a'), both.open(after, 'a')]).toEqual([secret, secret]);
  keys = [next];
  expect(both.open(after, 'a')).toEqual(secret);
  expect(() => both.open(before, 'a')).toThrow(/give it the master key/);
  expect(() => createSealing(old).open(after, 'a')).toThrow(/give it the master key/);
});
