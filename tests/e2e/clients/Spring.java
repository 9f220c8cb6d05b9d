import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Type;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

import jakarta.websocket.ContainerProvider;
import jakarta.websocket.WebSocketContainer;
import org.springframework.http.HttpHeaders;
import org.springframework.messaging.simp.stomp.ReactorNettyTcpStompClient;
import org.springframework.messaging.simp.stomp.StompClientSupport;
import org.springframework.messaging.simp.stomp.StompCommand;
import org.springframework.messaging.simp.stomp.StompFrameHandler;
import org.springframework.messaging.simp.stomp.StompHeaders;
import org.springframework.messaging.simp.stomp.StompSession;
import org.springframework.messaging.simp.stomp.StompSessionHandlerAdapter;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.util.MimeTypeUtils;
import org.springframework.web.socket.CloseStatus;
import org.springframework.web.socket.WebSocketExtension;
import org.springframework.web.socket.WebSocketHandler;
import org.springframework.web.socket.WebSocketSession;
import org.springframework.web.socket.client.standard.StandardWebSocketClient;
import org.springframework.web.socket.messaging.WebSocketStompClient;

/**
 * Drives Spring's STOMP clients by lines of JSON: piped.py has the format. `connect` says with `over` whether by
 * WebSocket, with Tomcat's container, or by TCP, with Netty; and with `beats` the heart-beats, in milliseconds.
 */
public class Spring {
    /** Bytes of a message of WebSocket that is read as a whole, and of one that is written. */
    private static final int LARGEST_READ = 6 << 20;
    private static final int LARGEST_WRITTEN = 64 << 10;
    private static final ThreadPoolTaskScheduler SCHEDULER = new ThreadPoolTaskScheduler();
    private static final List<StompHeaders> FRAMES = new ArrayList<>();

    /** What a connection was told: a frame, its end (no command), or what went wrong in the library. */
    private record Told(StompCommand command, StompHeaders headers, byte[] body, Throwable wrong) {
        String answer() {
            if (wrong != null) return failed(wrong);
            if (command == null) return "{\"lost\":true}";
            FRAMES.add(headers);
            List<String> members = new ArrayList<>();
            headers.forEach((name, values) -> members.add(quoted(name) + ":" + quoted(values.get(0))));
            return "{\"frame\":{\"command\":" + quoted(command.name()) + ",\"headers\":{" + String.join(",", members)
                + "},\"body\":\"" + Base64.getEncoder().encodeToString(body) + "\",\"number\":" + (FRAMES.size() - 1)
                + "}}";
        }
    }

    /** A client of WebSocket that can be cut off: Spring's own only ends with DISCONNECT. */
    private static class Cuttable extends StandardWebSocketClient {
        private volatile WebSocketSession opened;

        Cuttable(WebSocketContainer container) {
            super(container);
        }

        @Override
        public CompletableFuture<WebSocketSession> executeInternal(WebSocketHandler handler, HttpHeaders headers, URI uri,
                List<String> protocols, List<WebSocketExtension> extensions, Map<String, Object> attributes) {
            return super.executeInternal(handler, headers, uri, protocols, extensions, attributes)
                .whenComplete((session, error) -> opened = session);
        }

        void cut() throws Exception {
            opened.close(CloseStatus.GOING_AWAY);
        }
    }

    private static class Connection extends StompSessionHandlerAdapter {
        private final BlockingQueue<Told> came = new LinkedBlockingQueue<>();
        private final Map<String, StompSession.Subscription> subscriptions = new HashMap<>();
        private StompSession session;
        private Drop drop;

        private interface Drop {
            void now() throws Exception;
        }

        void connect(Map<String, Object> asked) {
            StompHeaders headers = new StompHeaders();
            headers.setAcceptVersion((String) asked.get("version"));
            headers.setHost((String) asked.get("host"));
            headers.setLogin((String) asked.get("login"));
            headers.setPasscode((String) asked.get("passcode"));
            int port = ((Long) asked.get("port")).intValue();
            if (asked.get("over").equals("tcp")) {
                ReactorNettyTcpStompClient client = prepared(new ReactorNettyTcpStompClient("127.0.0.1", port), asked);
                drop = client::shutdown;
                client.connectAsync(headers, this);
            } else {
                WebSocketContainer container = ContainerProvider.getWebSocketContainer();
                container.setDefaultMaxTextMessageBufferSize(LARGEST_READ);
                container.setDefaultMaxBinaryMessageBufferSize(LARGEST_READ);
                Cuttable sockets = new Cuttable(container);
                WebSocketStompClient client = prepared(new WebSocketStompClient(sockets), asked);
                client.setInboundMessageSizeLimit(LARGEST_READ);
                client.setOutboundMessageSizeLimit(LARGEST_WRITTEN);
                drop = sockets::cut;
                client.connectAsync(URI.create("ws://127.0.0.1:" + port + "/ws"), null, headers, this);
            }
        }

        private static <C extends StompClientSupport> C prepared(C client, Map<String, Object> asked) {
            long beats = (Long) asked.get("beats");
            client.setTaskScheduler(SCHEDULER);
            client.setDefaultHeartbeat(new long[] {beats, beats});
            return client;
        }

        @Override
        public void afterConnected(StompSession session, StompHeaders headers) {
            this.session = session;
            tell(StompCommand.CONNECTED, headers, null);
        }

        @Override
        public Type getPayloadType(StompHeaders headers) {
            return byte[].class;
        }

        @Override
        public void handleFrame(StompHeaders headers, Object body) {
            tell(StompCommand.ERROR, headers, body);
        }

        @Override
        public void handleException(StompSession session, StompCommand command, StompHeaders headers, byte[] body, Throwable error) {
            came.add(new Told(command, headers, body, error));
        }

        @Override
        public void handleTransportError(StompSession session, Throwable error) {
            System.err.println("Spring's connection is lost: " + error);
            came.add(new Told(null, null, null, null));
        }

        private void tell(StompCommand command, StompHeaders headers, Object body) {
            came.add(new Told(command, headers, body == null ? new byte[0] : (byte[]) body, null));
        }

        /** Have the RECEIPT of a request shown, if it asked for one. */
        private void watch(StompSession.Receiptable request, Map<String, String> asked) {
            if (!asked.containsKey("receipt")) return;
            Consumer<StompHeaders> shown = headers -> tell(StompCommand.RECEIPT, headers, null);
            request.addReceiptTask(shown);
        }

        void send(String destination, byte[] body, Map<String, String> more) {
            StompHeaders headers = headers(more);
            headers.setDestination(destination);
            if (!isText(body)) headers.setContentType(MimeTypeUtils.APPLICATION_OCTET_STREAM); // else it goes as text
            watch(session.send(headers, body), more);
        }

        void subscribe(String destination, Map<String, String> more) {
            StompHeaders headers = headers(more);
            headers.setDestination(destination);
            StompSession.Subscription made = session.subscribe(headers, new StompFrameHandler() {
                @Override
                public Type getPayloadType(StompHeaders headers) {
                    return byte[].class;
                }

                @Override
                public void handleFrame(StompHeaders headers, Object body) {
                    tell(StompCommand.MESSAGE, headers, body);
                }
            });
            subscriptions.put(more.get("id"), made);
            watch(made, more);
        }

        void acknowledge(Map<String, Object> asked, boolean consumed) {
            StompHeaders message = FRAMES.get(((Long) asked.get("frame")).intValue());
            StompHeaders headers = headers(headersOf(asked));
            if (message.getAck() == null) {
                headers.setSubscription(message.getSubscription());
                headers.setMessageId(message.getMessageId());
            } else {
                headers.setId(message.getAck());
            }
            watch(session.acknowledge(headers, consumed), headersOf(asked));
        }

        String receive(long patience) throws InterruptedException {
            Told next = came.poll(patience, TimeUnit.SECONDS);
            if (next == null) throw new IllegalStateException("nothing received");
            return next.answer();
        }

        private static StompHeaders headers(Map<String, String> more) {
            StompHeaders headers = new StompHeaders();
            more.forEach(headers::set);
            return headers;
        }

        private static boolean isText(byte[] body) {
            try {
                StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(body));
                return true;
            } catch (CharacterCodingException error) {
                return false;
            }
        }
    }

    /** Reads one line of JSON: texts, whole numbers, and objects of them. */
    private static class Reader {
        private final String text;
        private int at;

        Reader(String text) {
            this.text = text;
        }

        Map<String, Object> object() {
            Map<String, Object> found = new HashMap<>();
            for (expect('{'); text.charAt(at) != '}'; skip(",")) {
                String name = string();
                expect(':');
                found.put(name, value());
            }
            expect('}');
            return found;
        }

        private Object value() {
            skip("");
            if (text.charAt(at) == '{') return object();
            if (text.charAt(at) == '"') return string();
            int start = at;
            while ("-+.eE0123456789".indexOf(text.charAt(at)) >= 0) at += 1;
            return (long) Double.parseDouble(text.substring(start, at));
        }

        private String string() {
            StringBuilder found = new StringBuilder();
            for (expect('"'); text.charAt(at) != '"'; at += 1) {
                char next = text.charAt(at);
                if (next != '\\') {
                    found.append(next);
                } else if (text.charAt(at += 1) == 'u') {
                    found.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                    at += 4;
                } else {
                    int which = "nrtbf".indexOf(text.charAt(at));
                    found.append(which < 0 ? text.charAt(at) : "\n\r\t\b\f".charAt(which));
                }
            }
            expect('"');
            return found.toString();
        }

        private void expect(char wanted) {
            skip("");
            if (text.charAt(at) != wanted) throw new IllegalArgumentException(wanted + " is not at " + at);
            at += 1;
            skip("");
        }

        private void skip(String more) {
            while (at < text.length() && (text.charAt(at) == ' ' || more.indexOf(text.charAt(at)) >= 0)) at += 1;
        }
    }

    private static String quoted(String text) {
        StringBuilder found = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            found.append(each < ' ' || each == '"' || each == '\\' ? String.format("\\u%04x", (int) each) : each);
        }
        return found.append('"').toString();
    }

    private static String failed(Throwable error) {
        return "{\"failed\":" + quoted(error.toString()) + "}";
    }

    @SuppressWarnings("unchecked")
    private static Map<String, String> headersOf(Map<String, Object> asked) {
        return (Map<String, String>) (Map<String, ?>) asked.getOrDefault("headers", Map.of());
    }

    private static String answer(Connection connection, Map<String, Object> asked) throws Exception {
        String destination = (String) asked.get("destination");
        Map<String, String> more = headersOf(asked);
        long patience = (Long) asked.get("patience");
        switch ((String) asked.get("do")) {
            case "connect":
                connection.connect(asked);
                return connection.receive(patience);
            case "send":
                connection.send(destination, Base64.getDecoder().decode((String) asked.get("body")), more);
                break;
            case "subscribe":
                connection.subscribe(destination, more);
                break;
            case "unsubscribe":
                connection.subscriptions.remove(more.get("id")).unsubscribe();
                break;
            case "ack":
                connection.acknowledge(asked, true);
                break;
            case "nack":
                connection.acknowledge(asked, false);
                break;
            case "receive":
                return connection.receive(patience);
            case "disconnect":
                connection.session.disconnect();
                break;
            case "drop":
                connection.drop.now();
                break;
            default:
                throw new IllegalArgumentException("Spring's client cannot " + asked.get("do"));
        }
        return "{\"done\":true}";
    }

    public static void main(String[] arguments) throws Exception {
        SCHEDULER.initialize();
        Map<Object, Connection> connections = new HashMap<>();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<String, Object> asked = new Reader(line).object();
            Object number = asked.get("connection");
            if (asked.get("do").equals("connect")) connections.put(number, new Connection());
            try {
                answers.println(answer(connections.get(number), asked));
            } catch (Exception error) {
                answers.println(failed(error));
            }
            if (List.of("disconnect", "drop").contains(asked.get("do"))) connections.remove(number); // with its buffers
        }
        System.exit(0);
    }
}
