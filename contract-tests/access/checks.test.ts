/** What the matrix finds fault with, it must be able to find: differences, leaks of ids, and answers that break the contract. */
import { expect, test } from 'vitest';
import { answerFaults, operations } from '../contract.ts';
import { idPlacesIn, withIdIn } from '../id-places.ts';
import { differences } from './cell.ts';
import { idsIn, neverMade, withIdAt, withIds } from './ids.ts';
import type { Answer } from './wire.ts';

const [one, other] = ['ses_01k9w6r3h2e7xv5q0c8m4b1tza', 'ses_01k9w6r3h2e7xv5q0c8m4b1tzb'];

function answer(body: object, status = 404, headers: Record<string, string> = {}): Answer {
  const type = 'application/problem+json';
  return { status, type, headers: new Headers(headers), text: JSON.stringify(body) };
}

test('answers that differ in ids, and in what names the request, are the same', () => {
  const detail = (id: string) => ({
    detail: `No session ${id}.`,
    request_id: `req_${id}`,
    instance: `/${id}`,
  });
  const named = answer(detail(one), 404, { Date: 'today', 'X-Request-Id': 'a' });
  expect(differences(named, answer(detail(other), 404, { Date: 'tomorrow', 'X-Request-Id': 'b' }))).toEqual(
    [],
  );
});

test.each([
  ['the status', answer({ code: 'not_found' }, 403)],
  ['the body', answer({ code: 'role_required' })],
  ['a header', answer({ code: 'not_found' }, 404, { ETag: '"1"' })],
])('answers that differ in %s are not', (_, different) => {
  expect(differences(answer({ code: 'not_found' }), different)).toHaveLength(1);
});

test('ids are found and replaced wherever they stand', () => {
  const value = { path: `/sessions/${one}/fork`, body: { from: [other] } };
  expect(idsIn(value)).toEqual([one, other]);
  expect(withIdAt(value, 1, one)).toEqual({ path: value.path, body: { from: [one] } });
  expect(withIds(value, { session_id: other }).path).toBe(`/sessions/${other}/fork`);
  expect(idsIn(neverMade(value))).toEqual(Array(2).fill('ses_01k9w6r3h2e7xv5q0c8m4b1tzz'));
});

test('ids may stand in lists, in members of members and in choices, also of a schema that holds itself', () => {
  const id = (prefix: string) => ({ type: 'string', pattern: `^${prefix}_[0-7][0-9a-hjkmnp-tv-z]{25}$` });
  const node = {
    properties: {
      file_ids: { items: id('file') },
      grants: { items: { properties: { principal: { anyOf: [id('usr'), id('grp')] }, role: {} } } },
      source: { oneOf: [{ properties: { session_id: id('ses') } }, { type: 'null' }] },
      below: { $ref: '#' },
    },
  };
  const places = idPlacesIn(node, (schema) => ('$ref' in schema ? node : schema));
  expect(places.map(({ steps, prefix }) => `${steps.join('/')} ${prefix}`)).toEqual([
    'file_ids/[] file',
    'grants/[]/principal usr',
    'grants/[]/principal grp',
    'source/session_id ses',
  ]);
  expect(withIdIn({ source: { a: 1 } }, ['source', 'session_id'], one)).toEqual({
    source: { a: 1, session_id: one },
  });
  const grants = [{ principal: other, role: 'viewer' }];
  expect(withIdIn({ grants }, ['grants', '[]', 'principal'], one)).toEqual({
    grants: [...grants, { principal: one, role: 'viewer' }],
  });
  expect(withIdIn({}, ['file_ids', '[]'], one)).toEqual({ file_ids: [one] });
});

test('a kind of id that cannot be told is not passed over', () => {
  const unknown = { pattern: '^(?:[a-z]+)_[0-7][0-9a-hjkmnp-tv-z]{25}$' };
  expect(() => idPlacesIn(unknown, (schema) => schema)).toThrow('of which kind');
});

test.each([
  ['a member that the contract does not have', 200, 'application/json', '{"status":"ok","extra":1}'],
  ['another type', 200, 'text/plain', 'ok'],
  ['another shape for a refusal', 418, 'application/problem+json', '{"error":"no"}'],
])('%s is no answer of an operation', async (_, status, type, text) => {
  const health = operations.find(({ operationId }) => operationId === 'getHealth');
  if (!health) throw new Error('The contract has no getHealth');
  expect(
    await answerFaults(health, { status: 200, type: 'application/json', text: '{"status":"ok"}' }),
  ).toEqual([]);
  expect(await answerFaults(health, { status, type, text })).not.toEqual([]);
});
