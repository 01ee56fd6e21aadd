/** Random sequences of commands, most of which apply, and none without any of what has to be driven. */
import fc from 'fast-check';
import type { Fate } from './state-machine-checks.ts';
import {
  answer,
  type Command,
  end,
  expire,
  fork,
  interrupt,
  isIdle,
  makeRoom,
  mostSessions,
  query,
  type Reply,
  refused,
  release,
  resume,
  revert,
} from './state-machine-commands.ts';
import type { Kind } from './state-machine-model.ts';

const pick = fc.nat(mostSessions * (mostSessions - 1) - 1);
const any = fc.nat(30);
const fate = fc.constantFrom<Fate>('kill', 'stop');
const seldom = fc.oneof({ weight: 8, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: fate });
const reply = fc.constantFrom<Reply>('yes', 'for all of the session', 'no');
const kind = fc.constantFrom<Kind>(
  'say',
  'hold',
  'run',
  'both',
  'same',
  'same',
  'free',
  'ask',
  'write',
  'edit',
);

/** Mostly queries and answers; kills and stops cost a start of the server each. */
const one: fc.Arbitrary<Command> = fc.oneof(
  ...Array.from({ length: 3 }, () => fc.tuple(kind, pick, seldom).map((given) => query(...given))),
  ...Array.from({ length: 3 }, () => fc.tuple(reply, pick, seldom).map((given) => answer(...given))),
  fc
    .tuple(fc.oneof(any, fc.constant<'session'>('session')), pick, seldom)
    .map((given) => interrupt(...given)),
  fc.tuple(pick, seldom).map((given) => interrupt('keeping the queue', ...given)),
  fc.tuple(any, pick).map((given) => resume(...given)),
  fc.tuple(any, pick).map((given) => fork(...given)),
  fc.tuple(any, fc.boolean(), pick).map((given) => revert(...given)),
  pick.map(release),
  fc.oneof(
    fc.tuple(pick, any).map((given) => refused(...given)),
    fc.tuple(pick, any).map((given) => refused(...given)),
    pick.map(expire),
    fate.map((given) => end(given)),
  ),
);

/**
 * Each makes by itself what its commands need, whatever came before: so that chance leaves nothing out that
 * `mustBeDriven` names.
 */
const scenes: readonly fc.Arbitrary<readonly Command[]>[] = [
  fc
    .tuple(fc.constantFrom<Kind>('run', 'both', 'ask'), pick, reply)
    .map(([asking, at, replied]) => [...alone(asking, at), end('kill', true), answer(replied, at, null)]),
  fc
    .tuple(fc.constantFrom<Kind>('hold', 'run', 'both', 'ask'), pick, any)
    .map(([open, at, which]) => [...alone(open, at), interrupt(which, at, null), resume(which, at)]),
  fc
    .tuple(fc.constantFrom<Kind>('say', 'free', 'write', 'edit'), pick, any, fc.boolean())
    .map(([ended, at, which, files]) => [...alone(ended, at), fork(which, at), revert(which, files, at)]),
];

/** A query in a session where nothing else is at work. */
function alone(asked: Kind, at: number): readonly Command[] {
  return [makeRoom(at), query(asked, at, null, isIdle)];
}

/** The scenes in any order, the first at the very beginning, with so many commands at random among them. */
export function sequences(most: number): fc.Arbitrary<readonly Command[]> {
  const random = fc.array(one, { minLength: most, maxLength: most });
  const places = fc.tuple(fc.nat(most), fc.nat(most));
  const order = fc.shuffledSubarray([...scenes.keys()], { minLength: scenes.length });
  return fc.tuple(random, places, order, fc.tuple(...scenes)).map(([commands, at, shuffled, made]) => {
    const [first, last] = at.toSorted((a, b) => a - b);
    const parts = [commands.slice(0, first), commands.slice(first, last), commands.slice(last)];
    return shuffled.flatMap((scene, index) => [...(made[scene] ?? []), ...(parts[index] ?? [])]);
  });
}
