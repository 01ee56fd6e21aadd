/** The shape of a handler: typed input from the contract, a typed reply, no request or response object. */
import { createHash } from 'node:crypto';
import type { operations } from './contract/api.ts';
import type { Families, OperationId, PublicOperation } from './contract/routes.ts';
import type { Origin, Principal, Services } from './services.ts';

export type {
  AnswerTerms,
  AskedModels,
  Asker,
  Generation,
  GivenPassages,
  MediaCall,
  MediaChoice,
  MediaFile,
  MediaKind,
  MediaModels,
  ModelMessage,
  ModelMessagePart,
  ModelPart,
  Principal,
  Profile,
  Query,
  Reranker,
  Searcher,
  Services,
  SpentByCall,
  StartedRun,
  StoredJob,
  TokenCount,
  ToolDefinition,
} from './services.ts';
export { soundFormats, soundTypeOf } from './services.ts';

/** One server-sent event before framing; without a name, or with the name `message`, it goes out unnamed. */
export interface ServerEvent<Data = unknown> {
  readonly name?: string;
  /** The SSE `id`: the number that a client sends back as Last-Event-ID. */
  readonly seq?: number;
  readonly data: Data;
}

/** Events whose frames are written already, by somebody who speaks the format of this stream. */
export interface WrittenEvents {
  readonly written: Uint8Array;
  /** Whether nothing may follow. */
  readonly last: boolean;
}

/** What a stream brings next. */
export type StreamPiece = ServerEvent | WrittenEvents;

/** The file of a form, whose bytes are still arriving. */
export interface UploadedFile {
  /** The most bytes that it can have; null where the request does not say how long it is. */
  readonly mostBytes: number | null;
  /** Can be read once. Fails where the form is broken, or where anything comes after the file. */
  readonly content: AsyncIterable<Uint8Array>;
}

/** What a handler is given: all of it has passed the contract. */
export interface Call<Id extends OperationId> {
  readonly path: Part<Id, 'path'>;
  readonly query: Part<Id, 'query'>;
  /** The declared header parameters, by the names of the contract. */
  readonly headers: Part<Id, 'header'>;
  /** The declared cookies; they come from a browser, and may hold anything. */
  readonly cookies: Part<Id, 'cookie'>;
  readonly body: Body<operations[Id]>;
  /** Null only where the operation is public and no credential came. */
  readonly principal: Id extends PublicOperation ? Principal | null : Principal;
  readonly requestId: string;
  /** The run that the same request, by its Idempotency-Key, has begun before: it is to be answered from that. */
  readonly earlierRun: string | null;
  /**
   * Does what follows from a file once its bytes are there, by their hash: with an Idempotency-Key once, in one
   * transaction with the answer, which may be that of the same request before it.
   */
  readonly onceReceived: (sha256: string, work: () => Promise<Reply<Id>>) => Promise<Reply<Id>>;
  /**
   * Commits what was written, before something that takes long: with an Idempotency-Key together with the answer that
   * counts where the process dies before it gives its own. Nobody is given it before `hiddenMs` have passed.
   */
  readonly keepMeanwhile: (reply: Reply<Id>, hiddenMs: number) => Promise<void>;
  /** Where the request came from, for the audit log; `principal` has it too. */
  readonly origin: Origin;
  /** Aborts when the caller goes away. */
  readonly signal: AbortSignal;
  /** Whether the body goes to nobody (HEAD): what it takes long to open is not opened then. */
  readonly headOnly: boolean;
}

/** What a handler answers: a success of the contract. Failures are thrown as `Problem`. */
export type Reply<Id extends OperationId> = operations[Id] extends { responses: infer Responses }
  ? { [Status in keyof Responses & Success]: Flat<StatusReply<Status, Responses[Status]>> }[keyof Responses &
      Success]
  : never;

/** One operation: called with what the contract lets in, answers with what the contract lets out. */
export type Handler<Id extends OperationId> = (call: Call<Id>, services: Services) => Promise<Reply<Id>>;

/** Every operation of the contract, by family: no more, no less. */
export type Handlers = { readonly [F in keyof Families]: { readonly [Id in Families[F]]: Handler<Id> } };

/** Refuses what `satisfies Handlers` lets pass: an export that is no operation of its family. */
export type NoStrays<Given> = {
  readonly [F in keyof Given]: F extends keyof Families
    ? { readonly [Name in keyof Given[F]]: Name extends Families[F] ? unknown : never }
    : never;
};

/** Whether the caller has this representation already, so that the answer is 304 (RFC 9110 §13.1.2). */
export function isCurrent(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  const tags: readonly string[] = ifNoneMatch.match(/"[^"]*"/g) ?? [];
  return ifNoneMatch.trim() === '*' || tags.includes(etag);
}

/** The ETag of a representation that shows more than its row: the version of the row, a dot, a mark of the rest. */
export function etagWith(rowTag: string, rest: unknown): string {
  const mark = createHash('sha256').update(JSON.stringify(rest)).digest('base64url').slice(0, 10);
  return `${rowTag.slice(0, -1)}.${mark}"`;
}

/** What an `If-Match` asks of the row itself: a change writes the row, whatever else was shown beside it. */
export function rowTags(ifMatch: string | undefined): string | undefined {
  return ifMatch?.replaceAll(/\.[\w-]*"/g, '"');
}

type Success = 200 | 201 | 202 | 204 | 206 | 302 | 304;

type Part<Id extends OperationId, Where extends string> = operations[Id] extends {
  parameters: infer Parameters;
}
  ? Where extends keyof Parameters
    ? NonNullable<Parameters[Where]>
    : Record<never, never>
  : Record<never, never>;

type Body<Operation> = Operation extends { requestBody: { content: infer Content } }
  ? BodyOf<Content>
  : Operation extends { requestBody?: { content: infer Content } }
    ? BodyOf<Content> | undefined
    : undefined;

/** Of each type that a body may have, what is made of it. */
type BodyOf<Content> = {
  [Type in keyof Content]: Type extends 'multipart/form-data'
    ? Form<Content[Type]>
    : Type extends 'application/octet-stream'
      ? UploadedFile
      : Content[Type];
}[keyof Content];

type Form<Parts> = { readonly [Name in keyof Parts]: Name extends 'file' ? UploadedFile : Parts[Name] };

type StatusReply<Status, Response> = { readonly status: Status } & Headers<Response> & Content<Response>;

type Content<Response> = Response extends { content: infer Media }
  ? [keyof Media] extends [never]
    ? { readonly body?: undefined }
    : { [Type in keyof Media]: Payload<Type, Media[Type]> }[keyof Media]
  : { readonly body?: undefined };

type Payload<Type, Data> = Type extends 'text/event-stream'
  ? { readonly type: Type; readonly body: AsyncIterable<StreamPiece> }
  : Type extends 'application/json'
    ? // A document too long to be held whole is written in pieces, and names its type.
      { readonly type?: Type; readonly body: Data | AsyncIterable<string> }
    : Type extends 'application/octet-stream'
      ? { readonly type: Type; readonly body: AsyncIterable<Uint8Array> }
      : // A long text may come in pieces.
        { readonly type: Type; readonly body: Data extends string ? Data | AsyncIterable<Data> : Data };

/** Written by http/ itself, so that no handler need give them. */
type Automatic = 'X-Request-Id' | 'X-SSE-Version' | 'Cache-Control' | 'request-id';

type Headers<Response> = Response extends { headers: infer Declared }
  ? keyof Omit<Known<Declared>, Automatic> extends never
    ? { readonly headers?: OptionalHeaders }
    : { readonly headers: Omit<Known<Declared>, Automatic> & OptionalHeaders }
  : unknown;

/** The generator types required headers only; the others are checked against the contract when they are written. */
type OptionalHeaders = { readonly [name: string]: string };

/** Drops the index signature that the generator adds to headers. */
type Known<T> = { [K in keyof T as string extends K ? never : number extends K ? never : K]: T[K] };

type Flat<T> = T extends unknown ? { [K in keyof T]: T[K] } : never;
