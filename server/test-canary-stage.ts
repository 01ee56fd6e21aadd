/** The server of the canary test: what is sent to it, which secrets go along, and what it answered. */
import type { OpenId } from '../contract-tests/openid/start-openid.ts';
import { routes } from './contract/routes.ts';
import type { ServerProcess } from './server-process.ts';
import type { Answer, Json, RequestOptions } from './test-app.ts';
import type { Mailbox } from './test-mailbox.ts';
import type { Secrets } from './test-secrets.ts';

/** What an answer was asked for and says, with the secrets that it is there to hand out. */
export interface Told {
  readonly request: string;
  readonly text: string;
  readonly gives: Set<string>;
}

/** What an answer is, with what is kept of it. */
export type Kept = Answer & { readonly told: Told };

/** A server, what stands around it, and all that was said. */
export interface Stage {
  readonly folder: string;
  readonly variables: Readonly<Record<string, string>>;
  readonly server: ServerProcess;
  readonly mailbox: Mailbox;
  readonly openid: OpenId;
  /** The address that the server believes to be reached by: the test passes on what comes for it. */
  readonly publicUrl: string;
  readonly secrets: Secrets;
  readonly told: Told[];
  /** The secret members that were sent, as `login password`. */
  readonly sent: Set<string>;
}

/** Sends a request and keeps what came back. */
export async function send(
  stage: Stage,
  method: string,
  path: string,
  { token, body, headers = {} }: RequestOptions = {},
): Promise<Kept> {
  const response = await fetch(stage.server.url + path, {
    method,
    redirect: 'manual',
    headers: {
      ...(token && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  return keep(stage, `${method} ${path.replace(/\?.*/, '')}`, response);
}

export async function keep(stage: Stage, request: string, response: Response): Promise<Kept> {
  const text = await response.text();
  const told = { request, text: `${[...response.headers].join('\n')}\n\n${text}`, gives: new Set<string>() };
  stage.told.push(told);
  const isJson = /[/+]json\b/.test(response.headers.get('content-type') ?? '');
  const body = text === '' ? null : isJson ? JSON.parse(text) : text;
  return { status: response.status, headers: response.headers, body, told };
}

/** Sends a body of which these members are the secrets. */
export async function confide(
  stage: Stage,
  [operationId, ...names]: readonly [string, ...string[]],
  body: Json,
  options: RequestOptions = {},
): Promise<Kept> {
  const route = routes.find((one) => one.operationId === operationId);
  if (!route) throw new Error(`There is no ${operationId}.`);
  for (const name of names) stage.sent.add(`${operationId} ${name}`);
  const sent = Object.keys(body).length === 0 ? {} : { body };
  return send(stage, route.method.toUpperCase(), route.path, { ...sent, ...options });
}

/** What the answer gives for this one time is a secret from now on; two tokens of one moment may be the same. */
export function given(
  { secrets }: Stage,
  { told }: { readonly told: Told },
  what: string,
  value: string,
): string {
  secrets.add(what, value);
  told.gives.add(secrets.nameOf(value));
  return value;
}

let pairs = 0;

export function tokensOf(stage: Stage, answer: Kept): { access: string; refresh: string } {
  pairs += 1;
  const { access_token, refresh_token } = answer.body;
  return {
    access: given(stage, answer, `access token ${pairs}`, access_token),
    refresh: given(stage, answer, `refresh token ${pairs}`, refresh_token),
  };
}

export const admin = 'admin@example.com';
export const ada = 'ada@example.com';
