/** The client: one typed call per method, by path, over the generated types; what is no success is thrown. */
import createClient, {
  type Client,
  type ClientPathsWithMethod,
  defaultBodySerializer,
  type FetchOptions,
  type HeadersOptions,
  type Middleware,
} from 'openapi-fetch';
import { callOf, serviceErrorOf, unexpectedForm } from './errors.ts';
import type { paths } from './generated/api.ts';
import { RepeatableRequest } from './repeatable-request.ts';
import { policyOf, type RetryPolicy, type Send, type Token, withRetries } from './retries.ts';

/** Where the service is, and how to speak to it. */
export interface ClientOptions {
  /** The address of the server, for instance `http://127.0.0.1:8090`. */
  readonly baseUrl: string;
  /**
   * An access token or an API key; a function is asked before each attempt, so that it can renew the token. To renew
   * it, it calls with another client, which has no token, or it would ask itself.
   */
  readonly token?: Token;
  /** Instead of the global `fetch`. A `ConnectionError` of its own is thrown as it is, and the call not repeated. */
  readonly fetch?: Send;
  /** How calls are repeated; what is not given is 4 times, after 250 ms at first, and with waits of 30 s at the most. */
  readonly retries?: Partial<RetryPolicy>;
  /** Sent with every request. */
  readonly headers?: Record<string, string>;
}

// Calls go by path, as openapi-fetch has them, and not by a method for each operation: the path and the method are what
// the contract, the logs and curl speak of, the generated types alone check them, and no table of operations has to be
// generated, shipped and kept in step. What openapi-fetch leaves to the caller is settled here: failures are thrown, so
// that `data` is always there, and the body is not inferred but prescribed, so that an unknown member does not compile.
type Method = 'get' | 'put' | 'post' | 'patch' | 'delete';
type PathOf<M extends Method> = ClientPathsWithMethod<Client<paths>, M>;
type Operation<P extends keyof paths, M extends Method> = paths[P][M & keyof paths[P]];

/** What a body can be read as besides JSON. */
interface Forms {
  text: string;
  blob: Blob;
  arrayBuffer: ArrayBuffer;
  stream: ReadableStream<Uint8Array> | null;
}
type ParseAs = 'json' | keyof Forms;

// Not how one call is sent: the fetch of the client puts large bodies into its requests, and takes none but its own. Nor
// where to: the client checks the address and the ids of its paths.
type Options<Op> = Omit<
  FetchOptions<Op>,
  'parseAs' | 'headers' | 'fetch' | 'middleware' | 'baseUrl' | 'pathSerializer' | 'redirect'
>;
type OptionsByPath<M extends Method> = { [P in PathOf<M> & keyof paths]: Options<Operation<P, M>> };
// Interfaces, so that the compiler looks at the path of a call alone: the options of all paths at once are too many.
interface OptionsOf {
  get: GetOptions;
  put: PutOptions;
  post: PostOptions;
  patch: PatchOptions;
  delete: DeleteOptions;
}
interface GetOptions extends OptionsByPath<'get'> {}
interface PutOptions extends OptionsByPath<'put'> {}
interface PostOptions extends OptionsByPath<'post'> {}
interface PatchOptions extends OptionsByPath<'patch'> {}
interface DeleteOptions extends OptionsByPath<'delete'> {}

type Init<Given, As extends ParseAs> = Given & {
  headers?: HeadersOptions;
  /** How the body is read: JSON unless said otherwise; `stream` leaves it unread. */
  parseAs?: As;
};
/** The second argument may be left out where nothing in it is needed. */
type Rest<Given, As extends ParseAs> =
  Record<never, never> extends Given ? [init?: Init<Given, As>] : [init: Init<Given, As>];

type Success<Op> = Op extends { responses: infer R } ? R[keyof R & (200 | 201 | 202 | 204)] : never;
type Json<Response> = Response extends { content: infer C }
  ? C[keyof C & `${string}${'/' | '+'}json`]
  : undefined;
type Data<Op, As extends ParseAs> = As extends keyof Forms ? Forms[As] : Json<Success<Op>>;

/** A success: the body as the contract describes it, and the response for its headers. */
export interface Answer<D> {
  readonly data: D;
  readonly response: Response;
}

type Call<M extends Method> = <P extends keyof OptionsOf[M] & keyof paths, As extends ParseAs = 'json'>(
  path: P,
  ...rest: Rest<OptionsOf[M][P], As>
) => Promise<Answer<Data<Operation<P, M>, As>>>;

/**
 * `client.GET('/api/v1/sessions/{session_id}', { params: { path: { session_id } } })` and so on. An answer that is no
 * success is thrown as `ServiceError` (304, which only a caller who sent `If-None-Match` can get, as `not_modified`);
 * no answer at all as `ConnectionError`; an abort with the signal's own reason.
 */
export type ServiceClient = { readonly [M in Method as Uppercase<M>]: Call<M> } & {
  readonly retries: RetryPolicy;
};

/** Makes a client. It holds no connection and need not be closed. */
export function createServiceClient(options: ClientOptions): ServiceClient {
  const retries = policyOf(options.retries ?? {});
  const client = createClient<paths>({
    baseUrl: absolute(options.baseUrl),
    headers: options.headers ?? {},
    bodySerializer: serializeBody,
    Request: RepeatableRequest,
    fetch: withRetries(options.fetch ?? ((request) => fetch(request)), retries, options.token),
  });
  client.use(requireIds, mergePatch, refuse);
  // The same functions; their type says that failures are thrown, as `refuse` does.
  const { GET, PUT, POST, PATCH, DELETE } = client as unknown as ServiceClient;
  return { GET, PUT, POST, PATCH, DELETE, retries };
}

function absolute(baseUrl: string): string {
  const address = baseUrl.trim();
  // No request takes a name or a password, and what refuses them would show them.
  if (/^[^/?#]*(\/\/[^/?#]*)?@/.test(address))
    throw new TypeError('baseUrl has a name or a password in it; the credential is given as token.');
  if (!/^https?:\/\//i.test(address) || !URL.canParse(address))
    throw new TypeError(`baseUrl is "${baseUrl}"; it has to be an address such as http://127.0.0.1:8090.`);
  // Paths follow it: they would be part of its query.
  if (/[?#]/.test(address))
    throw new TypeError(`baseUrl is "${baseUrl}"; a query or a fragment cannot stand in it.`);
  return address.replace(/\/+$/, '');
}

/** An id that is empty or of dots alone would make the path of another operation, and one that is missing a name as an id. */
const requireIds: Middleware = {
  onRequest({ schemaPath, params }) {
    for (const [, name = ''] of schemaPath.matchAll(/\{([^{}]+)\}/g)) {
      const id = params.path?.[name] ?? '';
      if (/^\.{0,2}$/.test(String(id)))
        throw new TypeError(`${name} is "${String(id)}", which cannot stand in ${schemaPath}.`);
    }
  },
};

/** Text that a call declares to be something else than JSON is sent as it is. */
function serializeBody(body: unknown, headers?: Headers): string {
  const type = headers?.get('Content-Type') ?? 'application/json';
  if (typeof body === 'string' && !/[/+]json\s*(;|$)/i.test(type)) return body;
  return defaultBodySerializer(body);
}

/** Every PATCH of the contract that has JSON is a merge patch; openapi-fetch calls all that it sends plain JSON. */
const mergePatch: Middleware = {
  onRequest({ request }) {
    const given = request.headers.get('Content-Type') ?? 'application/json';
    if (request.method === 'PATCH' && given === 'application/json')
      request.headers.set('Content-Type', 'application/merge-patch+json');
  },
};

const refuse: Middleware = {
  onRequest({ request, options }) {
    if (request instanceof RepeatableRequest) request.isStreamed = options.parseAs === 'stream';
  },
  async onResponse({ request, response, options }) {
    if (!response.ok) throw await serviceErrorOf(request, response);
    if (options.parseAs !== 'json' || response.status === 204) return;
    const type = response.headers.get('Content-Type');
    if (type === null || /^[^;]*[/+]json\s*(;|$)/i.test(type)) return await refuseBroken(request, response);
    await response.body?.cancel();
    throw unexpectedForm(callOf(request), response, "JSON; text is read with parseAs: 'text'");
  },
};

/** A proxy may end what it has not got to the end of, or got nothing of, as if that were all. */
async function refuseBroken(request: Request, response: Response): Promise<void> {
  const text = await response.clone().text();
  try {
    JSON.parse(text);
  } catch {
    throw unexpectedForm(callOf(request), response, 'JSON to its end');
  }
}
