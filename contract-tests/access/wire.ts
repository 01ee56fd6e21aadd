/** A request and its answer, as they stand on the wire. */

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly token: string | null;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly type: string;
  readonly text: string;
}

export async function send({ url }: { readonly url: string }, request: Request): Promise<Answer> {
  const { method, path, query, headers, body, token } = request;
  const search = new URLSearchParams(query);
  const response = await fetch(`${url}${path}${search.size > 0 ? `?${search}` : ''}`, {
    method,
    headers: { ...headers, ...(token !== null && { Authorization: `Bearer ${token}` }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    // Where a browser is sent belongs to somebody else's contract.
    redirect: 'manual',
  });
  const [type = ''] = (response.headers.get('Content-Type') ?? '').split(';');
  return { status: response.status, headers: response.headers, type, text: await response.text() };
}
