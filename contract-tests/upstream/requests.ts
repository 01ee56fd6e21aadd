// The log of what reached the upstream and how far each answer got, for tests to assert on.
import type { IncomingHttpHeaders } from 'node:http';

export interface RequestRecord {
  id: number;
  method: string;
  /** With the query string. */
  path: string;
  headers: IncomingHttpHeaders;
  /** Parsed if it is JSON, else the text as received. */
  body: unknown;
  /** Name, or else the number, of the rule that answered. */
  rule: string | null;
  status: number | null;
  /** `cut`: this program broke off, as scripted. `aborted`: the client went away first. */
  outcome: 'open' | 'finished' | 'aborted' | 'cut';
  received_at: number;
  first_byte_at: number | null;
  ended_at: number | null;
  chunks_written: number;
  bytes_written: number;
  /** True while a write waits for the client to read. */
  blocked: boolean;
  blocked_times: number;
}

export interface RequestLog {
  open(method: string, path: string, headers: IncomingHttpHeaders): RequestRecord;
  all(): RequestRecord[];
  clear(): void;
}

export function createRequestLog(): RequestLog {
  let records: RequestRecord[] = [];
  let lastId = 0;
  return {
    open(method, path, headers) {
      const record = newRecord(++lastId, method, path, headers);
      records.push(record);
      return record;
    },
    all: () => records,
    clear() {
      records = [];
    },
  };
}

export function closeRecord(record: RequestRecord, outcome: 'finished' | 'aborted' | 'cut'): void {
  if (record.outcome !== 'open') return;
  record.outcome = outcome;
  record.blocked = false;
  record.ended_at = Date.now();
}

function newRecord(id: number, method: string, path: string, headers: IncomingHttpHeaders): RequestRecord {
  return {
    id,
    method,
    path,
    headers,
    body: null,
    rule: null,
    status: null,
    outcome: 'open',
    received_at: Date.now(),
    first_byte_at: null,
    ended_at: null,
    chunks_written: 0,
    bytes_written: 0,
    blocked: false,
    blocked_times: 0,
  };
}
