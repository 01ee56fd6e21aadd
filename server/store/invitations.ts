/** One-time tokens to register with: the bootstrap token of a new installation, and invitations. */
import type { Knex } from 'knex';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import type { StoreParts } from './parts.ts';

/** `bootstrap` makes the operator; `invitation` lets a person in where registration is by invitation. */
export type InvitationKind = 'bootstrap' | 'invitation';

/** A token as the store knows it: only its hash. */
export interface InvitationToken {
  readonly kind: InvitationKind;
  readonly hash: string;
}

export interface Invitations {
  add(token: InvitationToken & { readonly expiresAt: Date }): Promise<void>;
  /** Whether a bootstrap token waits to be used. */
  hasOpenBootstrap(): Promise<boolean>;
  /** Ends unused tokens of a kind, so that a lost one can be replaced. Answers with how many there were. */
  withdraw(kind: InvitationKind): Promise<number>;
}

interface InvitationRow {
  hash: string;
  kind: InvitationKind;
  created_at: number;
  expires_at: number;
  used_at: number | null;
  used_by: string | null;
}

export function invitationRepository({ database, clock }: StoreParts): Invitations {
  const now = (): number => clock.now().getTime();
  return {
    add: ({ kind, hash, expiresAt }) =>
      database.write('installation', async (sql) => {
        const row = { hash, kind, created_at: now(), expires_at: expiresAt.getTime() };
        await sql('invitations').insert(row);
        recordAudit(
          sql,
          { userId: null },
          {
            action: 'invitation.create',
            target: { type: 'invitation', id: null },
            organizationId: null,
            after: { kind, expires_at: expiresAt },
          },
        );
      }),
    hasOpenBootstrap: () =>
      database.read('installation', async (sql) => {
        const open = await sql<InvitationRow>('invitations')
          .where({ kind: 'bootstrap', used_at: null })
          .where('expires_at', '>', now())
          .first('hash');
        return open !== undefined;
      }),
    withdraw: (kind) =>
      database.write('installation', (sql) =>
        sql<InvitationRow>('invitations').where({ kind, used_at: null }).delete(),
      ),
  };
}

/** Uses a token up inside the transaction of what it is used for; of many at once, one gets through. */
export async function consumeInvitation(
  sql: Knex.Transaction,
  { kind, hash }: InvitationToken,
  userId: string,
  now: number,
): Promise<void> {
  const used = await sql<InvitationRow>('invitations')
    .where({ hash, kind, used_at: null })
    .where('expires_at', '>', now)
    .update({ used_at: now, used_by: userId });
  if (used === 1) return;
  throw new Problem(
    'registration_refused',
    'The token is unknown, expired or used; ask whoever runs this server for a new one.',
  );
}
