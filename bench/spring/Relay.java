import java.util.List;

import org.apache.catalina.Context;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.websocket.server.WsSci;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.converter.MessageConverter;
import org.springframework.messaging.simp.config.MessageBrokerRegistry;
import org.springframework.web.context.support.AnnotationConfigWebApplicationContext;
import org.springframework.web.servlet.DispatcherServlet;
import org.springframework.web.socket.config.annotation.EnableWebSocketMessageBroker;
import org.springframework.web.socket.config.annotation.StompEndpointRegistry;
import org.springframework.web.socket.config.annotation.WebSocketMessageBrokerConfigurer;
import org.springframework.web.socket.config.annotation.WebSocketTransportRegistration;

/** Spring's StompBrokerRelay in an embedded Tomcat: `java Relay PORT BROKER LOGIN DIRECTORY`, all on 127.0.0.1. */
public class Relay {
    /** Octets of a message, for which Tomcat keeps room for each session. */
    private static final int LARGEST = 96 << 10;
    private static final int WAITING = 64 << 20;
    private static final int PATIENCE = 60_000;

    /** Thread pools are Spring's own. Frames keep their order, as a client of STOMP expects, which is not its default. */
    @Configuration
    @EnableWebSocketMessageBroker
    public static class Settings implements WebSocketMessageBrokerConfigurer {
        @Override
        public void registerStompEndpoints(StompEndpointRegistry registry) {
            registry.addEndpoint("/ws");
            registry.setPreserveReceiveOrder(true);
        }

        @Override
        public void configureMessageBroker(MessageBrokerRegistry registry) {
            String login = System.getProperty("login");
            registry.setPreservePublishOrder(true);
            registry.enableStompBrokerRelay("/queue", "/topic").setRelayHost("127.0.0.1")
                .setRelayPort(Integer.getInteger("broker")).setVirtualHost("/")
                .setSystemLogin(login).setSystemPasscode(login).setClientLogin(login).setClientPasscode(login);
        }

        @Override
        public void configureWebSocketTransport(WebSocketTransportRegistration transport) {
            transport.setMessageSizeLimit(LARGEST).setSendBufferSizeLimit(WAITING).setSendTimeLimit(PATIENCE);
        }

        @Override
        public boolean configureMessageConverters(List<MessageConverter> converters) {
            return true;
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("broker", arguments[1]);
        System.setProperty("login", arguments[2]);
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(arguments[3]);
        Connector connector = new Connector("org.apache.coyote.http11.Http11NioProtocol");
        connector.setProperty("address", "127.0.0.1");
        connector.setProperty("tcpNoDelay", "true");
        connector.setPort(Integer.parseInt(arguments[0]));
        tomcat.setConnector(connector);
        Context context = tomcat.addContext("", null);
        context.addServletContainerInitializer(new WsSci(), null);
        context.addParameter("org.apache.tomcat.websocket.textBufferSize", Integer.toString(LARGEST));
        AnnotationConfigWebApplicationContext spring = new AnnotationConfigWebApplicationContext();
        spring.register(Settings.class);
        Tomcat.addServlet(context, "spring", new DispatcherServlet(spring)).setLoadOnStartup(1);
        context.addServletMappingDecoded("/", "spring");
        tomcat.start();
        tomcat.getServer().await();
    }
}
