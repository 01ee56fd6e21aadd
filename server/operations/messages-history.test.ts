/** Which turns of a client's history are new to a session. */
import { describe, expect, test } from 'vitest';
import type { Message } from '../contract/api.ts';
import { cpuMsOf } from '../test-cpu.ts';
import { histories, newTurns, sentTurns, type Turn } from './messages-history.ts';

/** `u1 a1` as turns: who speaks, and what. */
function turns(said: string): Turn[] {
  return said
    .split(' ')
    .filter(Boolean)
    .map((word) => ({ role: word.startsWith('u') ? 'user' : 'assistant', text: word.slice(1) }));
}

function said(role: 'user' | 'assistant', text: string): Pick<Message, 'role' | 'parts'> {
  return { role, parts: [{ type: 'text', text }] };
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
  const sent = (['\n\n1', '2'] as const).map((text, at) => said(at === 0 ? 'assistant' : 'user', text));
  expect(newTurns([turns('a1')], sentTurns(sent, new Set()))).toEqual(turns('u2'));
});

test('one that is mostly space takes no longer', async () => {
  const sent = [
    said('user', `x${' '.repeat(4_000_000)}`),
    ...Array.from({ length: 5000 }, () => said('user', 'a')),
  ];
  const spent = await cpuMsOf(() => newTurns([[]], sentTurns(sent, new Set())));
  expect(spent).toBeLessThan(1000);
});

test('the second history counts where the first does not fit', () => {
  expect(newTurns([turns('u1 a1 u2'), turns('u1 a1')], turns('u1 a1 u2'))).toEqual(turns('u2'));
});

describe('a client may bring its history', () => {
  const known = (words: string, more: Partial<Message>) => {
    const stored = turns(words).map(
      ({ role, text }): Message => ({
        ...{ id: `msg_${text}`, session_id: 'ses_1', run_id: null, role, parts: [{ type: 'text', text }] },
        ...{ model: null, stop_reason: null, usage: null, feedback: null, reverted: false, cost: null },
        ...{ summary: false, excluded: false, created_at: '2026-11-21T08:00:00.000Z', ...more },
      }),
    );
    return histories(stored, { status: 'idle' }, new Set());
  };

  test.each(['u1 a1 u2', 'u2 a2 u1', 'u2 a1 u3'])(
    'once more, as %s, where the provider has refused all of it',
    (sent) => {
      expect(newTurns(known('u1 a1 u2', { excluded: true }), turns(sent))).toEqual(turns(sent));
    },
  );

  test('but not beside the beginning of an answer, which is shown', () => {
    const run_id = 'run_01k9w6r3h2e7xv5q0c8m4b1tza';
    const interrupted = known('u1 a1', { run_id, stop_reason: 'interrupted' });
    expect(newTurns(interrupted, turns('u1 a0 u2'))).toBe(null);
    expect(newTurns(interrupted, turns('u8 a8 u2'))).toBe(null);
  });
});

test.each(['run_01k9w6r3h2e7xv5q0c8m4b1tza', null])(
  'neither the beginning of an answer given anew nor a question taken back has to be known (run: %s)',
  (run_id) => {
    const said = (role: Message['role'], text: string, more: Partial<Message> = {}): Message => ({
      ...{ id: `msg_${text}`, session_id: 'ses_1', run_id, role, parts: [{ type: 'text', text }] },
      ...{ model: null, stop_reason: null, usage: null, feedback: null, reverted: false, cost: null },
      ...{ summary: false, excluded: false, created_at: '2026-11-21T08:00:00.000Z', ...more },
    });
    // A fork knows of no runs: what its origin knew by them is marked.
    const anew = { stop_reason: 'interrupted', excluded: run_id === null } as const;
    const stored = [
      said('user', '1'),
      said('assistant', 'x', anew),
      said('assistant', '1', { stop_reason: 'end_turn' }),
      said('user', '9', { run_id: run_id && 'run_01k9w6r3h2e7xv5q0c8m4b1tzb', excluded: true }),
    ];
    const known = histories(stored, { status: 'idle' }, new Set());
    expect(newTurns(known, turns('u1 a1 u2'))).toEqual(turns('u2'));
  },
);

test('a long history that almost fits at every place takes no time', async () => {
  const same = Array.from({ length: 50_000 }, (): Turn => ({ role: 'user', text: 'a' }));
  const spent = await cpuMsOf(() => newTurns([[...same, { role: 'assistant', text: 'b' }]], same));
  expect(spent).toBeLessThan(1000);
});
