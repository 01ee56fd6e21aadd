/** Nobody's change is lost: every operation that takes If-Match, used by many at once, on one server and on two. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { found } from '../access/people.ts';
import { makeThing } from '../access/things.ts';
import type { ContractOperation } from '../contract.ts';
import { type Nodes, type StartedNodes, startNodes } from '../start-nodes.ts';
import { startUpstream, type Upstream } from '../upstream/start-upstream.ts';
import { changeOf } from './changes.ts';
import { type Answer, type Send, sender } from './client.ts';
import { changing, guarded, readerOf, type Seen, see, takesHeader, takesIfMatch } from './updatable.ts';

const together = 8;

/** There is nothing about them that two people could want differently, and what is gone stays gone. */
const withoutVersion: Readonly<Record<string, string>> = {
  addGroupMember: 'somebody is in a group, or is not',
  removeGroupMember: 'somebody is in a group, or is not',
  appendUpload: 'it says how many bytes there are',
  abortUpload: 'it is given up, whatever it has',
  revokeLogin: 'a login is never changed',
  revokeInvitation: 'an invitation is never changed',
  unlinkOidcLogin: 'a link is there, or is not',
  revokeMcpOauth: 'a login is there, or is not',
  revokeProviderOauth: 'a connection is there, or is not',
  disableMfa: 'it takes a code of the moment',
  clearQueuedPrompts: 'it names nothing that was read',
  revokeWorkspaceTrust: 'trust goes by the hash of what was read',
};

describe('by the contract', () => {
  test('whatever is changed takes If-Match, but for what has no versions', () => {
    const others = changing.filter((operation) => !takesIfMatch(operation));
    expect(others.map(({ operationId }) => operationId).toSorted()).toEqual(
      Object.keys(withoutVersion).toSorted(),
    );
  });

  test.each(guarded.map((operation) => [operation.operationId, operation] as const))(
    '%s changes what is read with an ETag, and answers 412',
    (_, operation) => {
      const reader = readerOf(operation);
      expect(operation.responses).toHaveProperty('412');
      expect(reader, 'what is changed can be read').toBeDefined();
      if (reader?.answerHeaders.includes('ETag')) {
        expect(takesHeader(reader, 'If-None-Match')).toBe(true);
        expect(reader.responses).toHaveProperty('304');
      } else expect(reader?.path, 'a list whose entries have ETags').not.toMatch(/\}$/);
      if (operation.method !== 'DELETE') expect(operation.answerHeaders).toContain('ETag');
    },
  );
});

describe.each(['SQLite', 'PostgreSQL'])('on %s', (database) => {
  const postgres = database === 'PostgreSQL' ? inject('postgresUrl') : null;
  const absent = database === 'PostgreSQL' && postgres === null;
  let upstream: Upstream;
  let started: StartedNodes;
  let nodes: Nodes;
  beforeAll(async () => {
    if (absent) return;
    upstream = await startUpstream();
    started = await startNodes(postgres, { upstreamUrl: upstream.url });
    nodes = started.nodes;
  });
  afterAll(async () => {
    await started?.stop();
    await upstream?.stop();
  });

  const updates = guarded.filter(({ method }) => method === 'PATCH' || method === 'PUT');

  describe.skipIf(absent).each(updates.map((operation) => [operation.operationId, operation] as const))(
    '%s',
    (_, operation) => {
      const change = changeOf(operation);
      const type = operation.example?.type ?? '';
      const update = (send: Send, place: string, body: object, etag?: string) =>
        send(operation.method, place, {
          body,
          type,
          ...(etag !== undefined && { headers: { 'if-match': etag } }),
        });

      test('with one ETag succeeds once', async () => {
        const { clients, place, seen } = await prepared(nodes, operation);
        const answers = await Promise.all(
          clients.map((send, index) =>
            update(send, place, change.add(seen.body, index % change.marks), seen.etag),
          ),
        );
        expect(statusesOf(answers)).toEqual([200, ...Array(together - 1).fill(412)]);
        for (const { status, body } of answers)
          if (status === 412) expect(body.code).toBe('precondition_failed');
        const [won] = answers.filter(({ status }) => status === 200);
        const now = await required(see(operation, place, clients[0]));
        expect(now.etag).toBe(won?.headers.get('etag'));
        expect(change.found(now.body)).toHaveLength(1);
      });

      test('by clients that read again and try again loses nothing', async () => {
        const { clients, place } = await prepared(nodes, operation);
        const marks = Array.from({ length: change.marks }, (_none, mark) => mark);
        await Promise.all(
          marks.map(async (mark) => {
            const send = clients[mark % clients.length] ?? clients[0];
            await untilDone(operation, place, send, (seen) =>
              update(send, place, change.add(seen.body, mark), seen.etag),
            );
          }),
        );
        const now = await required(see(operation, place, clients[0]));
        expect(change.found(now.body)).toEqual(marks);
      });

      test('asks for If-Match where the contract does, and never takes an old or a weak one', async () => {
        const { clients, place, seen } = await prepared(nodes, operation);
        const [send] = clients;
        const body = change.add(seen.body, 0);
        for (const etag of ['"of-nobody"', `W/${seen.etag}`])
          expect(await update(send, place, body, etag)).toMatchObject({ status: 412 });
        expect(await required(see(operation, place, send))).toEqual(seen);
        const status = '428' in operation.responses ? 428 : 200;
        expect((await update(send, place, body)).status).toBe(status);
        const after = await required(see(operation, place, send));
        expect(change.found(after.body)).toEqual(status === 200 ? [0] : []);
        expect((await update(send, place, body, `"old", ${after.etag}`)).status).toBe(200);
      });
    },
  );

  const removals = guarded.filter(({ method }) => method === 'DELETE' || method === 'POST');

  test.skipIf(absent).each(removals.map((operation) => [operation.operationId, operation] as const))(
    '%s and changes with the same ETag: one of them succeeds',
    async (_, operation) => {
      const { clients, place, seen } = await prepared(nodes, operation);
      const beside = updates.find(({ path }) => path === operation.path);
      const headers = { 'if-match': seen.etag };
      const act = (send: Send, index: number): Promise<Answer> => {
        if (beside === undefined || index % 2 === 0)
          return send(operation.method, place, { headers, ...(operation.example && { body: {} }) });
        const body = changeOf(beside).add(seen.body, 0);
        return send(beside.method, place, { body, type: beside.example?.type ?? '', headers });
      };
      const answers = await Promise.all(clients.map(act));
      const [won, ...others] = statusesOf(answers);
      expect(won).toBeLessThan(300);
      // What is gone has no version any more.
      for (const status of others) expect([404, 412]).toContain(status);
    },
  );

  test.skipIf(absent)('no request failed by a fault of the server', () => {
    for (const node of nodes) expect(node.log()).not.toMatch(/"level":50|internal_error/);
  });
});

interface Prepared {
  /** One account, by turns on each node. */
  readonly clients: readonly [Send, ...Send[]];
  readonly place: string;
  readonly seen: Seen;
}

let owners = 0;

/** Something of its own for each test, in an organization of its own. */
async function prepared(nodes: Nodes, operation: ContractOperation): Promise<Prepared> {
  owners += 1;
  const organization = await found(nodes[0], `owner-${owners}@example.com`);
  const ids = await makeThing(operation, organization, { expendable: true });
  const place = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? '');
  const token = operation.access.allow === 'operator' ? nodes[0].operatorKey : organization.owner.token;
  const clientAt = (index: number) => sender((nodes[index % nodes.length] ?? nodes[0]).url, token);
  const first = clientAt(0);
  const others = Array.from({ length: together - 1 }, (_, index) => clientAt(index + 1));
  const read = () => required(see(operation, place, first));
  // A document is taken in behind its maker's back, which changes it once more.
  if ('ingestion_id' in ids) await expect.poll(async () => (await read()).body.status).not.toBe('pending');
  const seen = await read();
  const isRemoval = operation.method === 'DELETE' || operation.method === 'POST';
  const unmarked = isRemoval ? undefined : changeOf(operation).first;
  if (!unmarked) return { clients: [first, ...others], place, seen };
  const type = operation.method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
  const headers = { 'if-match': seen.etag };
  const answer = await first(operation.method, place, { body: unmarked, type, headers });
  expect(answer).toMatchObject({ status: 200 });
  return { clients: [first, ...others], place, seen: await read() };
}

/** Reads, changes what was read, and begins again where somebody was faster. */
async function untilDone(
  operation: ContractOperation,
  place: string,
  send: Send,
  change: (seen: Seen) => Promise<Answer>,
): Promise<void> {
  for (let tries = 0; tries < 100; tries += 1) {
    const { status, body } = await change(await required(see(operation, place, send)));
    if (status === 200) return;
    if (status !== 412) throw new Error(`${operation.operationId}: ${status} ${JSON.stringify(body)}`);
  }
  throw new Error('Nobody gets their turn');
}

async function required(seen: Promise<Seen | null>): Promise<Seen> {
  const found = await seen;
  if (!found) throw new Error('It is not there');
  return found;
}

function statusesOf(answers: readonly Answer[]): number[] {
  return answers.map(({ status }) => status).toSorted((one, other) => one - other);
}
