/** A query as it enters the runtime. */
import type { PermissionMode, PermissionRule } from '../contract/api.ts';
import type { Generation } from './models/model.ts';
import type {
  Approval,
  NewAgentSession,
  NewMessage,
  NewSession,
  Occurrence,
  RunRequest,
} from './transcript.ts';

/** What is asked, and how it is to be answered; the caller's right to the session has been checked. */
export interface Query {
  readonly session: {
    readonly id: string;
    readonly workspaceId: string;
    readonly agentSlug: string;
    readonly model: string | null;
    readonly systemPrompt: string | null;
    readonly permissionRules: readonly PermissionRule[];
    /** The title that a new session has for want of a better one, which the small model may then replace. */
    readonly provisionalTitle?: string;
  };
  readonly userId: string;
  /** The API key that asks; absent where a login does. */
  readonly apiKeyId?: string;
  readonly trigger: 'api' | 'messages' | 'agent' | 'schedule';
  /** The prompt, and before it any history that the caller brought. */
  readonly messages: readonly Pick<NewMessage, 'role' | 'parts'>[];
  readonly agentSlug?: string;
  readonly model?: string;
  /** What the person wants where neither the query, the session nor the profile names a model. */
  readonly preferredModel?: string;
  readonly permissionMode?: PermissionMode;
  /** What is asked for besides the prompt. */
  readonly request?: RunRequest;
  readonly onUnanswered: 'wait' | 'deny';
  /** Of a run that another process has begun, and whose query does not say all that it was asked with. */
  readonly taken?: true;
  /** Its messages are stored with the run, and left out here. */
  readonly stored?: true;
  readonly generation?: Generation;
  /** The plan of the session that the run is to carry out. */
  readonly approval?: Approval;
  /** Of an agent that the agent of another session starts: its session is made with its run. */
  readonly agent?: NewAgentSession;
  /** The run of a job that the query is made for. */
  readonly occurrence?: Occurrence;
  /** Of a session that is made with this run. */
  readonly newSession?: NewSession;
  /** The newest run that the session had when its messages were read: the query is void where another has come since. */
  readonly afterRun?: number;
}
