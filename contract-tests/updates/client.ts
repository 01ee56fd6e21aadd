/** Sends requests that were made from the contract, as one account: to tests that know no operation by name. */
import { formOf } from '../access/wire.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** The JSON of the body; nothing where there is none. */
  readonly body: Readonly<Record<string, unknown>>;
}

export interface Sent {
  readonly body?: object;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** `type` is that of the body. */
export type Send = (method: string, path: string, sent?: Sent) => Promise<Answer>;

export function sender(url: string, token: string): Send {
  return async (method, path, { body, type = 'application/json', headers = {} } = {}) => {
    const response = await fetch(url + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        // The boundary is in the type that the form brings along.
        ...(body && !isForm(type) && { 'content-type': type }),
        ...headers,
      },
      ...(body && { body: isForm(type) ? formOf(body) : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === '' ? {} : JSON.parse(text) };
  };
}

function isForm(type: string): boolean {
  return type === 'multipart/form-data';
}
