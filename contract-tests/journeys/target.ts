/** What the journeys are made against: the mock of the contract, or the live server, through the same client. */
import { type ClientOptions, createServiceClient, type ServiceClient } from '@service/client';
import { ServiceError } from '@service/client/errors';
import { expect } from 'vitest';
import { answerFaults, type ContractOperation, faults, operations } from '../contract.ts';
import { type OpenId, openIdVariables, startOpenId } from '../openid/start-openid.ts';
import { startMock } from '../start-mock.ts';
import { startServer } from '../start-server.ts';
import { startUpstream } from '../upstream/start-upstream.ts';

/** What the answers to all calls so far have shown. */
interface AnswerRecord {
  /** The operations that have succeeded. */
  readonly succeeded: Set<string>;
  /** What is wrong with answers by the contract, but for streams, whose journeys look at each event. */
  readonly faults: string[];
}

export interface Target {
  readonly url: string;
  /** The provider that people of the live server log in through; null where there is none. */
  readonly openid: OpenId | null;
  /** A client without a credential. */
  readonly visitor: ServiceClient;
  /** A client with the access token of an account of its own. */
  readonly client: ServiceClient;
  /** A client with the key of the operator. */
  readonly operator: ServiceClient;
  clientWith(token: string): ServiceClient;
  readonly record: Readonly<AnswerRecord>;
  /** What holds only where calls change something: the mock always answers with its examples. */
  liveOnly(assertions: () => void | Promise<void>): Promise<void>;
  /** How many times `liveOnly` was asked. */
  liveOnlyCount(): number;
  stop(): Promise<void>;
}

/** The ids of the contract's examples, which is what the mock knows. */
export const example = {
  user: 'usr_01k9w6r3h2e7xv5q0c8m4b1tza',
  session: 'ses_01k9w6r3h2e7xv5q0c8m4b1tza',
  workspace: 'ws_01k9w6r3h2e7xv5q0c8m4b1tzb',
  member: 'usr_01k9w6r3h2e7xv5q0c8m4b1tzb',
  run: 'run_01k9w6r3h2e7xv5q0c8m4b1tza',
  key: 'key_01k9w6r3h2e7xv5q0c8m4b1tza',
  organization: 'org_01k9w6r3h2e7xv5q0c8m4b1tza',
  colleague: 'usr_01k9w6r3h2e7xv5q0c8m4b1tzc',
  invitation: 'ivt_01k9w6r3h2e7xv5q0c8m4b1tzb',
  group: 'grp_01k9w6r3h2e7xv5q0c8m4b1tza',
  person: 'usr_01k9w6r3h2e7xv5q0c8m4b1tzb',
  agent: 'agt_01k9w6r3h2e7xv5q0c8m4b1tza',
  corpus: 'cor_01k9w6r3h2e7xv5q0c8m4b1tza',
  document: 'doc_01k9w6r3h2e7xv5q0c8m4b1tza',
  ingestion: 'ing_01k9w6r3h2e7xv5q0c8m4b1tza',
  file: 'file_01k9w6r3h2e7xv5q0c8m4b1tza',
  memory: 'mem_01k9w6r3h2e7xv5q0c8m4b1tza',
  mcpServer: 'mcps_01k9w6r3h2e7xv5q0c8m4b1tza',
  job: 'job_01k9w6r3h2e7xv5q0c8m4b1tza',
  jobRun: 'jbr_01k9w6r3h2e7xv5q0c8m4b1tza',
  skill: 'skl_01k9w6r3h2e7xv5q0c8m4b1tza',
  skillRepository: 'skr_01k9w6r3h2e7xv5q0c8m4b1tza',
  providerSetting: 'pset_01k9w6r3h2e7xv5q0c8m4b1tza',
  plan: 'plan_01k9w6r3h2e7xv5q0c8m4b1tza',
  catalog: 'cat_01k9w6r3h2e7xv5q0c8m4b1tza',
  entry: 'aud_01k9w6r3h2e7xv5q0c8m4b1tza',
  permission: 'prm_01k9w6r3h2e7xv5q0c8m4b1tzb',
  prompt: 'prq_01k9w6r3h2e7xv5q0c8m4b1tzb',
};

/** An id of the right form that names nothing. */
export const nobodys = '01k9w6r3h2e7xv5q0c8m4b1tzz';

let accounts = 0;

/** The body of a registration that nobody has made before. */
export function newAccount() {
  accounts += 1;
  return { email: `journey-${accounts}@example.com`, password: 'correct-horse-battery', name: 'Grace' };
}

export async function openTarget(kind: 'mock' | 'live'): Promise<Target> {
  const { url, operatorKey, openid, stop } =
    kind === 'mock' ? { ...(await startMock()), operatorKey: 'sk-mock', openid: null } : await startLive();
  const record: AnswerRecord = { succeeded: new Set(), faults: [] };
  let asked = 0;
  const make = (options: Partial<ClientOptions>) =>
    createServiceClient({ baseUrl: url, fetch: recording(record), ...options });
  const visitor = make({});
  const { data } = await visitor.POST('/api/v1/auth/register', { body: newAccount() });
  return {
    url,
    openid,
    visitor,
    client: make({ token: data.access_token }),
    operator: make({ token: operatorKey }),
    clientWith: (token) => make({ token }),
    record,
    async liveOnly(assertions) {
      asked += 1;
      if (kind === 'live') await assertions();
    },
    liveOnlyCount: () => asked,
    stop,
  };
}

async function startLive() {
  const upstream = await startUpstream();
  const openid = await startOpenId();
  const variables = { ...openIdVariables(openid.url), SERVICE_OUTBOUND_ALLOW: '127.0.0.1' };
  const server = await startServer({ upstreamUrl: upstream.url, variables });
  return {
    url: server.url,
    operatorKey: server.operatorKey,
    openid,
    async stop() {
      await server.stop();
      await openid.stop();
      await upstream.stop();
    },
  };
}

function recording(record: AnswerRecord): (request: Request) => Promise<Response> {
  const known = operations.map((operation) => ({
    operation,
    pattern: new RegExp(`^${operation.label.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`),
  }));
  return async (request) => {
    const label = `${request.method} ${new URL(request.url).pathname}`;
    const operation = known.find(({ pattern }) => pattern.test(label))?.operation;
    const response = await fetch(request);
    if (operation) await note(record, operation, response);
    return response;
  };
}

async function note(record: AnswerRecord, operation: ContractOperation, answer: Response): Promise<void> {
  const { status, headers } = answer;
  const { operationId, successStatuses } = operation;
  if (successStatuses.includes(status)) record.succeeded.add(operationId);
  const [type = ''] = (headers.get('Content-Type') ?? '').split(';');
  // Who has a copy of a stream cannot end it alone.
  if (type === 'text/event-stream') return;
  const told = await answerFaults(operation, { status, type, text: await answer.clone().text() });
  record.faults.push(...told.map((fault) => `${operationId} ${status}: ${fault}`));
}

/** Expects that a value is as a schema of the contract says. */
export function expectShape(schema: string, value: unknown): void {
  expect(faults(schema, value), `by the schema ${schema}`).toEqual([]);
}

/** Makes the mock answer with this status; a live server heeds no such wish. */
export function preferring(status: number): { headers: Record<string, string> } {
  return { headers: { Prefer: `code=${status}` } };
}

/** The error that a call fails with, which is none of another kind. */
export async function refusal(call: Promise<unknown>): Promise<ServiceError> {
  const outcome: unknown = await call.then(
    () => 'it succeeded',
    (reason: unknown) => reason,
  );
  if (outcome instanceof ServiceError) return outcome;
  throw new Error('A ServiceError was due', { cause: outcome });
}
