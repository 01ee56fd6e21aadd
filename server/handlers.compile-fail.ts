/** What the contract forbids does not compile: compile-fail.test.ts runs the compiler on each line here. */
import type { Call, Handler, Handlers, NoStrays } from './handler.ts';
import { operations } from './operations/operations.ts';

const { getHealth, ...withoutHealth } = operations.system;

// @ts-expect-error An operation has no handler.
export const missing = { ...operations, system: withoutHealth } satisfies Handlers;

const withStray = { ...operations, system: { ...operations.system, getNothing: getHealth } };

// @ts-expect-error A handler belongs to no operation.
export const stray = withStray satisfies Handlers & NoStrays<typeof withStray>;

const withMoved = { ...operations, tools: { ...operations.tools, getHealth } };

// @ts-expect-error A handler stands in a family that is not its own, too.
export const doubled = withMoved satisfies Handlers & NoStrays<typeof withMoved>;

// @ts-expect-error The status is not declared.
export const wrongStatus: Handler<'getHealth'> = async () => ({ status: 201, body: { status: 'ok' } });

// @ts-expect-error The body is not what the contract says.
export const wrongBody: Handler<'getHealth'> = async () => ({ status: 200, body: { status: 'fine' } });

// @ts-expect-error A member of the body is missing.
export const missingMember: Handler<'listTools'> = async () => ({ status: 200, body: { data: [] } });

// @ts-expect-error The ETag is missing.
export const missingHeader: Handler<'getDocs'> = async () => ({ status: 200, type: 'text/html', body: '' });

const page = { status: 200, headers: { ETag: '' }, body: '' } as const;

// @ts-expect-error The media type is not declared.
export const wrongType: Handler<'getDocs'> = async () => ({ ...page, type: 'text/csv' });

const stream = { status: 200, type: 'text/event-stream', headers: { 'X-Run-Id': '' } } as const;

// @ts-expect-error A stream is events, not text.
export const textAsStream: Handler<'streamRunEvents'> = async () => ({ ...stream, body: 'data: {}' });

// @ts-expect-error A 204 has no body.
export const bodyOn204: Handler<'logout'> = async () => ({ status: 204, body: {} });

// @ts-expect-error The request has no such member.
export const unknownMember = (call: Call<'login'>) => call.body.username;

// @ts-expect-error The operation has no such parameter.
export const unknownParameter = (call: Call<'listTools'>) => call.query.tag;

// @ts-expect-error A public operation may be called by nobody in particular.
export const nobody = (call: Call<'getVersion'>) => call.principal.userId;
