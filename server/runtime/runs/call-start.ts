/** Tells that a tool call begins: once, and in one commit with the question whether it may run, where a person is asked. */
import type { ToolUse } from '../../contract/api.ts';
import type { EventLog } from '../events/event-log.ts';
import type { NumberedEvent, RunEvent } from '../transcript.ts';
import type { RunScope } from './run-scope.ts';

export interface CallStart {
  /** Stores that the call begins, unless that is stored already. */
  tell(): Promise<void>;
  /** Stores it together with more events, in the one transaction that `store` makes. */
  tellWith(events: readonly RunEvent[], store: StoreEvents): Promise<void>;
}

type StoreEvents = (events: readonly NumberedEvent[]) => Promise<void>;

/** `told` is whether a dead process has told it before. */
export function callStart(
  { runId, transcript }: RunScope,
  log: EventLog,
  call: ToolUse,
  told: boolean,
): CallStart {
  const started = {
    name: 'runtime',
    data: { type: 'tool_started', tool_call_id: call.id, tool_name: call.name, input: call.input },
  } as const;
  let toTell: readonly RunEvent[] = told ? [] : [started];
  const tellWith: CallStart['tellWith'] = async (events, store) => {
    await log.commit([...toTell, ...events], store);
    toTell = [];
  };
  return {
    tellWith,
    async tell() {
      if (toTell.length > 0) await tellWith([], (events) => transcript.appendEvents(runId, events));
    },
  };
}
