package bench;

/** An answer of the dependency other than 200. It has no stack trace, which nobody would read and which costs. */
@SuppressWarnings("serial")
class Refused extends RuntimeException {
    private Refused(int status) {
        super("the dependency answered " + status, null, false, false);
    }

    static Refused with(int status) {
        return status >= 400 && status < 500 && status != 429 ? new Permanent(status) : new Refused(status);
    }

    /** One that waiting can't cure. */
    static final class Permanent extends Refused {
        private Permanent(int status) {
            super(status);
        }
    }
}
