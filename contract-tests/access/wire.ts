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
    ...sentAs(body, { ...headers, ...(token !== null && { Authorization: `Bearer ${token}` }) }),
    // Where a browser is sent belongs to somebody else's contract.
    redirect: 'manual',
  });
  const [type = ''] = (response.headers.get('Content-Type') ?? '').split(';');
  return { status: response.status, headers: response.headers, type, text: await response.text() };
}

/** A body as the media type says that it is written. */
function sentAs(
  body: unknown,
  { 'Content-Type': type, ...headers }: Readonly<Record<string, string>>,
): Pick<RequestInit, 'headers' | 'body'> {
  if (body === undefined) return { headers: { ...headers, ...(type && { 'Content-Type': type }) } };
  // The boundary is in the type that the form brings along.
  if (type === 'multipart/form-data') return { headers, body: formOf(body as object) }; // every body is an object
  return { headers: { ...headers, ...(type && { 'Content-Type': type }) }, body: JSON.stringify(body) };
}

/** The file last, as the contract wants it. */
export function formOf({ file, ...fields }: { readonly file?: unknown }): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields))
    form.append(name, typeof value === 'string' ? value : JSON.stringify(value));
  if (file !== undefined) form.append('file', new Blob([String(file)]), 'file');
  return form;
}
