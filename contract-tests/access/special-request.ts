/** The shape of what has to be said of an operation for which the contract's example is not enough. */
import type { Person } from './people.ts';
import type { Ids } from './things.ts';
import type { Answer } from './wire.ts';
import type { World } from './world.ts';

/** Who sends it. */
export interface Sender {
  /** Null for who is not logged in. */
  readonly person: Person | null;
  readonly token: string | null;
}

export interface SpecialRequest {
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Beside the members of the example. */
  readonly body?: Readonly<Record<string, unknown>>;
  readonly token?: string;
  undo?(answer: Answer): Promise<void>;
}

export interface RequestPlace {
  readonly world: World;
  readonly sender: Sender;
  readonly ids: Ids;
}

export type Special = (place: RequestPlace) => SpecialRequest | Promise<SpecialRequest>;
