/** The chain of the audit log: what an entry says, and the hash that binds it to the entry before it. */
import { createHash } from 'node:crypto';

/** An entry as it is stored. */
export interface AuditRow extends AuditContent {
  readonly prev_hash: string;
  readonly hash: string;
}

/** All of an entry that its hash covers, besides the hash before it. */
export interface AuditContent {
  readonly sequence: number;
  readonly id: string;
  readonly created_at: number;
  readonly organization_id: string | null;
  readonly actor_type: 'user' | 'anonymous' | 'system';
  readonly actor_id: string | null;
  readonly credential_type: 'login' | 'api_key' | null;
  readonly credential_id: string | null;
  readonly action: string;
  readonly target_type: string;
  readonly target_id: string | null;
  readonly outcome: 'success' | 'refused';
  readonly reason: string | null;
  readonly ip: string | null;
  readonly request_id: string | null;
  /** JSON as text. */
  readonly before: string | null;
  readonly after: string | null;
}

/** An entry as it is written down elsewhere. */
export interface Anchor {
  readonly sequence: number;
  readonly hash: string;
}

/** The last entry. */
export interface AuditHead extends Anchor {
  readonly created_at: number;
}

/** Values in an order that never changes, as JSON: no two contents have the same text. */
const columns = [
  ...(['sequence', 'id', 'created_at', 'organization_id', 'actor_type', 'actor_id'] as const),
  ...(['credential_type', 'credential_id', 'action', 'target_type', 'target_id', 'outcome'] as const),
  ...(['reason', 'ip', 'request_id', 'before', 'after'] as const),
] satisfies (keyof AuditContent)[];

/** The hash of an entry that follows the one with `previous`: SHA-256, in hexadecimal. */
export function hashOfEntry(previous: string, content: AuditContent): string {
  const text = JSON.stringify([previous, ...columns.map((column) => content[column])]);
  return createHash('sha256').update(text).digest('hex');
}
