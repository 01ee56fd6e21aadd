/** Which turns of a client's history are new to a session. */
import { expect, test } from 'vitest';
import { cpuMsOf } from '../test-cpu.ts';
import { newTurns, type Turn } from './messages-history.ts';

/** `u1 a1` as turns: who speaks, and what. */
function turns(said: string): Turn[] {
  return said
    .split(' ')
    .filter(Boolean)
    .map((word) => ({ role: word.startsWith('u') ? 'user' : 'assistant', text: word.slice(1) }));
}

test.each<[what: string, stored: string, sent: string, fresh: string | null]>([
  ['everything, in a session that is empty', '', 'u1 a1 u2', 'u1 a1 u2'],
  ['what follows the stored history', 'u1 a1', 'u1 a1 u2', 'u2'],
  ['what follows its end, where the client has forgotten the begin', 'u1 a1 u2 a2', 'u2 a2 u3', 'u3'],
  ['as little as possible, where history repeats itself', 'u1 a1 u1 a1', 'u1 a1 u1 a1 u1', 'u1'],
  ['what follows a shorter overlap, where the longer one breaks off', 'u1 a1 u1 a2', 'u1 a2 u1', 'u1'],
  ['a message that stands alone', 'u1 a1', 'u2', 'u2'],
  ['a message that says the same again', 'u1', 'u1', 'u1'],
  ['nothing to be told apart, where the client remembers another answer', 'u1 a1', 'u1 a9 u2', null],
  ['nothing to be told apart, where the client remembers another end', 'u1 a1 u2 a2', 'u1 a1 u2', null],
])('new is %s', (_what, stored, sent, fresh) => {
  expect(newTurns([turns(stored)], turns(sent))).toEqual(fresh === null ? null : turns(fresh));
});

test('space at either end makes no difference', () => {
  const stored = [{ role: 'assistant' as const, text: '\n\n1' }];
  expect(newTurns([stored], turns('a1 u2'))).toEqual(turns('u2'));
});

test('the second history counts where the first does not fit', () => {
  expect(newTurns([turns('u1 a1 u2'), turns('u1 a1')], turns('u1 a1 u2'))).toEqual(turns('u2'));
});

test('a long history that almost fits at every place takes no time', async () => {
  const same = Array.from({ length: 50_000 }, (): Turn => ({ role: 'user', text: 'a' }));
  const spent = await cpuMsOf(() => newTurns([[...same, { role: 'assistant', text: 'b' }]], same));
  expect(spent).toBeLessThan(1000);
});
