/** A person's own password: asked for again before what a stolen access token must not be enough for, and changed. */
import { Problem } from '../problem.ts';
import { answered, type LoginBrake } from './login-brake.ts';
import { hashPassword, verifyPassword } from './passwords.ts';
import type { Principal } from './principal.ts';
import type { PasswordRecords } from './records.ts';

export interface OwnPasswords {
  /** Answers with its hash. Throws `password_wrong`, or `too_many_attempts` where that happens too often. */
  confirm(principal: Principal, password: string): Promise<string>;
  /** Ends every other login. Throws as `confirm` does. */
  change(principal: Principal, current: string, next: string): Promise<void>;
}

export function createOwnPasswords(records: PasswordRecords, brake: LoginBrake): OwnPasswords {
  async function confirm(principal: Principal, password: string): Promise<string> {
    const guarded = await brake.guard('password', principal.userId);
    const hash = await answered(guarded, records.find(principal));
    if (!(await answered(guarded, verifyPassword(hash, password))) || hash === null) throw wrong();
    await guarded.forget();
    return hash;
  }

  return {
    confirm,
    async change(principal, current, next) {
      const from = await confirm(principal, current);
      const to = await hashPassword(next);
      // Somebody may have set another one meanwhile, perhaps to shut this very login out.
      if (!(await records.change(principal, { from, to }, principal.credentialId))) throw wrong();
    },
  };
}

function wrong(): Problem {
  return new Problem('password_wrong', 'This is not the password of the account; it was not changed.');
}
